// 600 clients of a server's page whose requests never end: each writes a byte of its header from time to time. When the server has
// closed a connection, another one is opened.
import { connect, type Socket } from 'node:net'

export interface SlowConnections {
  /** How many connections have been closed so far. */
  readonly closed: number
  stop(): void
}

export function openSlowConnections(port: number, path: string): SlowConnections {
  const sockets = new Set<Socket>()
  let closed = 0
  const open = () => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`GET ${path} HTTP/1.1\r\nX: `))
    sockets.add(socket)
    socket
      .on('error', () => {}) // it closes too
      .on('close', () => {
        sockets.delete(socket)
        closed++
      })
  }
  const drip = setInterval(() => {
    for (const socket of sockets) if (socket.writable) socket.write('x')
    while (sockets.size < 600) open()
  }, 100)
  return {
    get closed() {
      return closed
    },
    stop() {
      clearInterval(drip)
      for (const socket of sockets) socket.destroy()
    },
  }
}

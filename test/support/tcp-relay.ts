// A relay in front of a server of 127.0.0.1, which can break or freeze the connections that go through it, or ask for TLS.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'

export interface TcpRelay {
  readonly port: number
  /** How many connections came so far. */
  readonly accepted: number
  /** Breaks every connection. New ones are taken. */
  drop(): void
  /** Passes nothing more through the connections there are, and leaves them open. New ones work. */
  freeze(): void
  stop(): Promise<void>
}

/** With `tls`, clients speak TLS to the relay; the server behind it does not. */
export async function startTcpRelay(target: number, tls?: TlsOptions, host = '127.0.0.1'): Promise<TcpRelay> {
  const pairs = new Set<readonly [Socket, Socket]>()
  let accepted = 0
  const take = (client: Socket): void => {
    accepted++
    const upstream = connect(target, '127.0.0.1')
    const pair = [client, upstream] as const
    pairs.add(pair)
    const end = (): void => {
      for (const socket of pair) socket.destroy()
      pairs.delete(pair)
    }
    for (const socket of pair) socket.on('error', end).on('close', end)
    client.pipe(upstream).pipe(client)
  }
  const server = tls === undefined ? createServer(take) : createTlsServer(tls, take)
  server.listen(0, host)
  await once(server, 'listening')
  const relay = {
    port: (server.address() as AddressInfo).port,
    get accepted() {
      return accepted
    },
    drop() {
      for (const [client] of pairs) client.destroy()
    },
    freeze() {
      for (const [client, upstream] of pairs) {
        client.unpipe(upstream).pause()
        upstream.unpipe(client).pause()
      }
    },
    async stop() {
      relay.drop()
      await server[Symbol.asyncDispose]()
    },
  }
  return relay
}

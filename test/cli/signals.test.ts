// Ctrl-C and SIGTERM where a command waits for something that says nothing.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { freePorts } from '../support/ports.ts'
import { startGraphmill } from '../support/processes.ts'

/** Takes connections and says nothing. */
let mute: TcpServer
const sockets = new Set<Socket>()
beforeAll(async () => {
  mute = createTcpServer((socket) => sockets.add(socket.on('error', () => undefined))).listen(0, '127.0.0.1')
  await once(mute, 'listening')
})
afterEach(() => {
  for (const socket of sockets) socket.destroy()
  sockets.clear()
})
afterAll(async () => await mute[Symbol.asyncDispose]())

const address = (server: Server | TcpServer) => `127.0.0.1:${(server.address() as AddressInfo).port}`

/** Starts a command, and sends it a signal once it has connected to the server that says nothing. */
async function interrupt(signal: NodeJS.Signals, args: readonly string[], env: Record<string, string> = {}) {
  const started = startGraphmill(args, env)
  await once(mute, 'connection')
  const end = await started.end(signal)
  return { ...end, stderr: started.stderr() }
}

describe('Ctrl-C', () => {
  test.each([
    ['load', ['load', 'package.json']],
    ['prompt', ['prompt', 'extract-topics', '--term', 'text="x"']],
    ['tail', ['tail', 'chunk']],
    ['status', ['status']],
    ['rejected', ['rejected']],
    ['dead list', ['dead', 'list']],
    ['doctor', ['doctor']],
  ])('while %s connects says that it was stopped, and is no defect', async (_, args) => {
    for (const scheme of ['kafka', 'pulsar+ws']) {
      const { code, stderr } = await interrupt('SIGINT', [
        ...args,
        '--broker',
        `${scheme}://${address(mute)}`,
      ])
      expect(stderr).toBe(
        'graphmill: Stopped by SIGINT. [aborted]\nRun the command again to go on; under `run` the work is done again by itself.\n',
      )
      expect(code).toBe(1)
    }
  })

  test.each(['doctor', 'extract'])('while %s asks the model whether it is there', async (command) => {
    const env = {
      OPENAI_BASE_URL: `http://${address(mute)}/v1`,
      OPENAI_API_KEY: 'sk-of-the-test',
      GRAPHMILL_MODEL: 'test-model',
    }
    const { code, stderr } = await interrupt(
      'SIGINT',
      command === 'doctor' ? [command] : [command, 'package.json'],
      env,
    )
    expect(stderr).toMatch(/^graphmill: Stopped by SIGINT\. \[aborted\]\n/m)
    expect(code).toBe(1)
  })

  test('a second one ends a command that does not heed the first', async () => {
    let asked = 0
    // Lets everybody in, and answers nothing else.
    const server = createServer((_, response) => (asked++ === 0 ? response.end('[]') : undefined)).listen(
      0,
      '127.0.0.1',
    )
    await once(server, 'listening')
    const started = startGraphmill(['dead', 'list', '--broker', `pulsar+ws://${address(server)}`])
    while (asked < 2) await wait(20)
    process.kill(started.pid, 'SIGINT')
    // Within half a second it would be the echo of the first.
    await wait(700)
    expect(await started.end('SIGINT')).toEqual({ code: null, signal: 'SIGINT' })
    server.closeAllConnections()
    await server[Symbol.asyncDispose]()
  })
})

describe('SIGTERM while `run` waits for its broker ends it well', () => {
  const args = (broker: string) => ['run', 'chunk-text', '--http', 'off', '--broker', `kafka://${broker}`]

  test('where nobody is', async () => {
    const [port] = await freePorts(1)
    const started = startGraphmill(args(`127.0.0.1:${port}`))
    await started.says('waiting for the broker')
    expect(await started.end('SIGTERM')).toEqual({ code: 0, signal: null })
  })

  test('where somebody says nothing', async () => {
    expect(await interrupt('SIGTERM', args(address(mute)))).toMatchObject({ code: 0, signal: null })
  })
})

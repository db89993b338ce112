// Whether Pulsar's native client loads on this machine: its package is optional, and its install downloads a binary. To run the tests of
// pulsar:// with a package that lies elsewhere, name its folder in NODE_PATH (the `node_modules` that contains `pulsar-client`).
import { loadNativeModule } from '../../src/broker/pulsar/binary/native-module.ts'

/** False after saying on stderr, in one line, that the tests are skipped and why. */
export function nativePulsar(what: string): boolean {
  try {
    loadNativeModule()
    return true
  } catch (error) {
    process.stderr.write(`${what}: skipped, ${(error as Error).message}\n`)
    return false
  }
}

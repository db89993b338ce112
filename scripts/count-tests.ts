// Prints `N passed, N failed` from vitest's JSON results, as the last line of .ci/run. Skipped tests are counted as such.
import { readFileSync } from 'node:fs'

interface Results {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numFailedTestSuites: number
}

const results = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as Results
// A file that could not be loaded has no failed test, so it counts as one.
const failed = Math.max(results.numFailedTests, results.numFailedTestSuites > 0 ? 1 : 0)
const skipped = results.numPendingTests > 0 ? `, ${results.numPendingTests} skipped` : ''
console.log(`${results.numPassedTests} passed, ${failed} failed${skipped}`)
process.exitCode = failed > 0 ? 1 : 0

// Prints `N passed, N failed` from vitest's JSON results, as the last line of .ci/run. Skipped tests are counted as such, and tests that
// passed at their second try are named before it.
import { readFileSync } from 'node:fs'

interface Results {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numFailedTestSuites: number
  readonly testResults: readonly {
    readonly assertionResults: readonly {
      readonly fullName: string
      readonly status: string
      /** Of the failed tries, also when another passed. */
      readonly failureMessages: readonly string[]
    }[]
  }[]
}

const results = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as Results
for (const { fullName, status, failureMessages } of results.testResults.flatMap(
  (file) => file.assertionResults,
))
  if (status === 'passed' && failureMessages.length > 0)
    console.log(`passed at its second try: ${fullName}: ${failureMessages[0]!.split('\n', 1)[0]}`)
// A file that could not be loaded has no failed test, so it counts as one.
const failed = Math.max(results.numFailedTests, results.numFailedTestSuites > 0 ? 1 : 0)
const skipped = results.numPendingTests > 0 ? `, ${results.numPendingTests} skipped` : ''
console.log(`${results.numPassedTests} passed, ${failed} failed${skipped}`)
process.exitCode = failed > 0 ? 1 : 0

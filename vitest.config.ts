import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Some tests start several processes one after another, each of which may take a minute on a busy machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // What is waited for comes late on a busy machine.
    expect: { poll: { timeout: 30_000 } },
    // In CI a test with real servers may be late for what else the machine does: it has a second try, which .ci/run names at its end.
    // A property that does not hold has none, since other values would be tried.
    retry: process.env['CI'] ? { count: 1, condition: /^(?!Property failed)/ } : 0,
    pool: 'forks',
    maxWorkers: 2,
  },
})

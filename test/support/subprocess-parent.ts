// A process that waits for a child of its own for ever: to be killed. The parameter is the file for the child's pid.
import { runInSubprocess } from '../../src/subprocess/subprocess.ts'

await runInSubprocess(
  new URL('./subprocess-task.ts', import.meta.url),
  { act: 'spin', file: process.argv[2] },
  { limits: { memoryMb: 512, seconds: 600 } },
)

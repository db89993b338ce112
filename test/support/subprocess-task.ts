// What the tests have a child process do: to answer, and all that a parser might do instead.
import { writeFileSync } from 'node:fs'
import { GraphmillError } from '../../src/errors.ts'

export type Task =
  | { readonly act: 'echo'; readonly value: unknown }
  | { readonly act: 'environment' | 'buffers' | 'heap' | 'exit' | 'killed' | 'throw' | 'long' }
  /** Writes its pid to the file, then goes on for ever. */
  | { readonly act: 'spin'; readonly file: string }

export async function run(task: Task, at: (place: string) => void): Promise<unknown> {
  at(`the act ${task.act}`)
  switch (task.act) {
    case 'echo':
      return task.value
    case 'environment':
      return Object.keys(process.env)
    case 'spin':
      writeFileSync(task.file, String(process.pid))
      for (;;);
    case 'buffers':
      for (const held: Buffer[] = []; ; ) held.push(Buffer.alloc(1024 * 1024, 1))
    case 'heap':
      for (const held: unknown[] = []; ; ) held.push({ held })
    case 'exit':
      return process.exit(0)
    case 'killed':
      return process.kill(process.pid, 'SIGKILL')
    case 'throw':
      throw new GraphmillError('document_scanned', 'there is no text.', { details: { pages: 2 } })
    case 'long':
      return 'x'.repeat(40 * 1024 * 1024)
    default:
      return task satisfies never
  }
}

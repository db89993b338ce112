// What leaves on standard error shows no secret, regardless of the writer. Logs have their own way there; see observe/log.ts.
import { isSecret } from '../config/options.ts'
import { keepSecret, redact } from '../redact.ts'

/** From now on; the secrets of a configuration are known once it is read, those of the command line at once. */
export function guardStandardError(args: readonly string[]): void {
  for (const [at, arg] of args.entries()) {
    const [, name = '', value = args[at + 1] ?? ''] = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? []
    if (isSecret(name)) keepSecret(value, `--${name}`)
  }
  const { stderr } = process
  const write = stderr.write.bind(stderr) as (chunk: unknown, ...rest: unknown[]) => boolean
  stderr.write = ((chunk: unknown, ...rest: unknown[]) =>
    write(typeof chunk === 'string' ? redact(chunk) : chunk, ...rest)) as typeof stderr.write
}

// The command line; each command has its own file. Exit codes: 0 success, 1 failure, 2 wrong usage; extract has more, see its file.
import { existsSync, readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { stuckCalls } from '../system-calls.ts'
import { coloured } from './colour.ts'
import { commands, examplesText } from './commands.ts'
import { exitCodeOfError } from './exit-code.ts'
import { failureText } from './failure.ts'
import { readOwnOptions } from './options.ts'
import { guardStandardError } from './standard-error.ts'
import { usageError } from './usage.ts'

// Two folders up from the sources, three from the build.
const packageFile = ['../../package.json', '../../../package.json']
  .map((path) => new URL(path, import.meta.url))
  .find((url) => existsSync(url))!
const { version, description } = JSON.parse(readFileSync(packageFile, 'utf8')) as {
  version: string
  description: string
}

guardStandardError(process.argv.slice(2))
// One small message that is held keeps its whole block of the pool: 64 KiB by Node's default.
Buffer.poolSize = 8 * 1024

const program = new Command('graphmill')
  .description(description)
  .version(version)
  .showSuggestionAfterError()
  .configureHelp({ sortSubcommands: false, subcommandTerm: (command) => command.name() })
  .exitOverride()
  // Errors are printed below, like any other error.
  .configureOutput({ outputError: () => undefined })

for (const [name, { description, group, examples, load }] of Object.entries(commands)) {
  const added = program.command(name).description(description).helpGroup(`${group}:`)
  added.addHelpText('after', () => examplesText(name, examples))
  if (process.argv.includes(name, 2)) (await load())(added)
}

let command = ''
program.hook('preAction', (_, action) => {
  command = action.name()
})

process.stdout.on('error', (cause: NodeJS.ErrnoException) => {
  // The reader of the output has closed it, as `head` does: that is no failure.
  if (cause.code === 'EPIPE') process.exit(0)
  const code = command === 'extract' ? 'store_failed' : 'output_failed'
  // On a terminal, the line of progress may be on the current line.
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K')
  process.exit(fail(new GraphmillError(code, `standard output: ${cause.message}.`, { cause })))
})

try {
  readOwnOptions(program, process.env)
  await program.parseAsync()
} catch (thrown) {
  if (thrown instanceof CommanderError && (thrown.exitCode === 0 || thrown.code === 'commander.help')) {
    // commander has printed the help: because it was requested, or because the command is missing.
    process.exitCode = thrown.exitCode === 0 ? 0 : 2
  } else {
    process.exitCode = fail(thrown instanceof CommanderError ? usageError(thrown) : toGraphmillError(thrown))
  }
}

// The command has ended. A stuck system call would still keep the process alive, and block `process.exit` too.
setTimeout(() => {
  const stuck = stuckCalls()
  if (stuck.length === 0) return
  console.error(`graphmill: ended without waiting for stuck system calls: ${stuck.join(', ')}`)
  process.kill(process.pid, 'SIGTERM')
}, 10_000).unref()

/** Prints the error; returns the exit code. */
function fail(error: GraphmillError): 1 | 2 {
  console.error(`${coloured('red', `graphmill: ${failureText(error)}`, process.stderr)}\n${error.remedy}`)
  if (error.code === 'unexpected' && error.cause instanceof Error) console.error(error.cause.stack)
  return exitCodeOfError(error)
}

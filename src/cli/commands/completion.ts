// `graphmill completion`: a script for bash or zsh that completes commands, options and values. It is made of the commands themselves, so
// that it knows what they know.
import { Argument, Command, type Option } from 'commander'
import { processorNames } from '../../../processors/modules.ts'
import { type OptionEntry, optionTable } from '../../config/options.ts'
import { inputPorts } from '../../flow/ports.ts'
import { choicesOf } from '../options.ts'

const shells = ['bash', 'zsh'] as const

/** The commands, given by who has them all. */
type Commands = Readonly<Record<string, { readonly load: () => Promise<(command: Command) => void> }>>

export function addCompletion(command: Command, commands: Commands): void {
  command
    .addArgument(new Argument('<shell>', 'the shell').choices(shells))
    .action(async (shell: (typeof shells)[number]) => {
      process.stdout.write(await completionScript(shell, commands))
    })
}

/** The script that a shell evaluates. */
export async function completionScript(shell: (typeof shells)[number], commands: Commands): Promise<string> {
  const cases = (
    await Promise.all(Object.entries(commands).map(([name, { load }]) => casesOf(name, load)))
  ).flat()
  const names = Object.keys(commands).join(' ')
  const head = shell === 'zsh' ? '#compdef graphmill\nautoload -U +X bashcompinit && bashcompinit\n' : ''
  // A file in fpath is read at the first completion, which it must answer itself.
  const first = `if [ "\${funcstack[1]}" = _graphmill ]; then _bash_complete -o bashdefault -o default -F _graphmill; fi\n`
  return `${head}_graphmill() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" name="\${COMP_WORDS[1]}" sub="\${COMP_WORDS[2]}"
  local words='' values='' options=''
  COMPREPLY=()
  # bash takes = for a word of its own.
  if [ "$cur" = '=' ]; then cur=''; elif [ "$prev" = '=' ]; then prev="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=( $(compgen -W '${names} --help --version' -- "$cur") )
    return
  fi
  case "$name $sub" in
${cases.join('\n')}
  esac
  case "$values" in
    '') ;;
    -) return ;;
    *) COMPREPLY=( $(compgen -W "$values" -- "$cur") ); return ;;
  esac
  case "$cur" in
    -*) COMPREPLY=( $(compgen -W "$options --help" -- "$cur") ) ;;
    *) if [ -n "$words" ]; then COMPREPLY=( $(compgen -W "$words" -- "$cur") ); fi ;;
  esac
}
complete -o bashdefault -o default -F _graphmill graphmill
${shell === 'zsh' ? first : ''}`
}

/** One case for each command, those with a subcommand first. */
async function casesOf(name: string, load: Commands[string]['load']): Promise<string[]> {
  const command = new Command(name)
  const add = await load()
  add(command)
  const subcommands = command.commands.map((each) => caseOf(`'${name} ${each.name()}'`, each))
  const names = command.commands.map((each) => each.name()).join(' ')
  return [...subcommands, caseOf(`'${name} '*`, command, names || wordsOf(name, command))]
}

/** What may stand where no option does; nothing means files. */
function wordsOf(name: string, command: Command): string {
  if (name === 'run') return processorNames.join(' ')
  if (name === 'tail') return inputPorts.join(' ')
  return (command.registeredArguments[0]?.argChoices ?? []).join(' ')
}

function caseOf(pattern: string, command: Command, words = ''): string {
  const options = command.options.map(({ long }) => long).join(' ')
  const valued = command.options.flatMap((option) => {
    const values = valuesOf(option)
    return values === undefined ? [] : [`        ${option.long}) values='${values}' ;;`]
  })
  const values = valued.length === 0 ? '' : `\n      case "$prev" in\n${valued.join('\n')}\n      esac`
  return `    ${pattern})\n      words='${words}'\n      options='${options}'${values}\n      ;;`
}

/** The values of an option; `-` for those that only the user knows, undefined for files and for flags. */
function valuesOf(option: Option): string | undefined {
  if (!option.required && !option.optional) return undefined
  const name = option.long!.slice(2)
  const entry: OptionEntry | undefined = Object.hasOwn(optionTable, name)
    ? optionTable[name as keyof typeof optionTable]
    : undefined
  const choices = choicesOf(option) ?? entry?.choices
  if (choices) return choices.join(' ')
  if (name === 'extractors') return extractors
  return /FILE|DIR|PATH|FOLDER/.test(option.flags) ? undefined : '-'
}

const extractors = processorNames
  .filter((name) => name.startsWith('extract-'))
  .map((name) => name.slice('extract-'.length))
  .join(' ')

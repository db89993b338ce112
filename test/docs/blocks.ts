// The code blocks of the docs, and the commands of sh blocks.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

export const pages = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md'],
  ...readdirSync('docs')
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
]

export interface Block {
  readonly page: string
  readonly line: number
  readonly language: string
  /** The last heading before the block. */
  readonly heading: string
  readonly code: string
  /** The file name, if the first line has one: `# flows.yaml`, `// tracing.ts`, `<!-- pom.xml -->`. */
  readonly file: string | undefined
}

export const blocks: readonly Block[] = pages.flatMap((page): Block[] => {
  const text = readFileSync(page, 'utf8')
  return [...text.matchAll(/^( *)```(\w+)\n(.*?)^\1```$/gms)].map((found) => {
    const [, indentation = '', language = '', indented = ''] = found
    const code = indented.replaceAll(new RegExp(`^${indentation}`, 'gm'), '')
    const [, file] = /^(?:#|\/\/|<!--) ([\w./-]+\.\w+)(?: -->)?\n/.exec(code) ?? []
    const before = text.slice(0, found.index)
    const heading =
      before
        .match(/^#+ .*$/gm)
        ?.at(-1)
        ?.replace(/^#+ /, '') ?? ''
    return { page, line: before.split('\n').length, language, heading, code, file }
  })
})

/** The position of a block, for messages. */
export const placeOf = ({ page, line }: Pick<Block, 'page' | 'line'>): string => `${page}:${line}`

/** The commands of an sh block, each with its continuation lines. */
export function commandsOf({ code }: Block): string[] {
  const commands: string[] = []
  let open = ''
  for (const line of code.split('\n')) {
    open += open === '' ? line : `\n${line}`
    if (!isWhole(open)) continue
    if (!/^\s*(#|$)/.test(open)) commands.push(open)
    open = ''
  }
  if (open !== '') throw new Error(`a command does not end: ${open}`)
  return commands
}

function isWhole(command: string): boolean {
  if (command.endsWith('\\')) return false
  try {
    execFileSync('bash', ['-nc', command], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** The commands of a console block (`$ command`), each with the output that is shown. */
export function sessionOf({ code }: Pick<Block, 'code'>): { command: string; output: string[] }[] {
  return code
    .split(/^\$ /m)
    .slice(1)
    .map((text) => {
      const [command = '', ...output] = text.trimEnd().split('\n')
      return { command, output }
    })
}

/** The shown lines that the output does not have. `…` stands for any text, and white space for any white space. */
export function missingLines(shown: readonly string[], output: string): string[] {
  const lines = output.split('\n')
  const pattern = (line: string) =>
    new RegExp(
      `^${line
        .split(/(…|\s+)/)
        .map((piece) =>
          piece === '…'
            ? '.*'
            : /^\s+$/.test(piece)
              ? '\\s+'
              : piece.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'),
        )
        .join('')}$`,
    )
  return shown.filter((line) => !lines.some((each) => pattern(line).test(each)))
}

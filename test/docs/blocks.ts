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
  readonly code: string
  /** The file name, if the first line has one: `# flows.yaml`, `// tracing.ts`, `<!-- pom.xml -->`. */
  readonly file: string | undefined
}

export const blocks: readonly Block[] = pages.flatMap((page): Block[] => {
  const text = readFileSync(page, 'utf8')
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map((found) => {
    const [, language = '', code = ''] = found
    const [, file] = /^(?:#|\/\/|<!--) ([\w./-]+\.\w+)(?: -->)?\n/.exec(code) ?? []
    return { page, line: text.slice(0, found.index).split('\n').length, language, code, file }
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

import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { graphmill } from '../support/command.ts'

const run = promisify(execFile)
const pages = ['README.md', ...readdirSync('docs').map((name) => `docs/${name}`)].filter((name) =>
  name.endsWith('.md'),
)

interface Block {
  readonly page: string
  readonly line: number
  readonly language: string
  readonly code: string
}

const blocks = pages.flatMap((page): Block[] => {
  const text = readFileSync(page, 'utf8')
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = '', code = ''], at, all) => ({
    page,
    line: text.slice(0, all[at]!.index).split('\n').length,
    language,
    code,
  }))
})

let folder: string
beforeAll(() => {
  mkdirSync('.cache', { recursive: true })
  folder = mkdtempSync('.cache/docs-')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('code blocks in the docs', () => {
  test('in TypeScript compile against the public API', async () => {
    const typescript = blocks.filter(({ language }) => language === 'ts')
    expect(typescript.length).toBeGreaterThan(0)
    for (const [at, { page, line, code }] of typescript.entries())
      writeFileSync(join(folder, `${page.replace(/\W/g, '-')}-${line}-${at}.ts`), `${code}\nexport {}\n`)
    const config = {
      extends: resolve('tsconfig.json'),
      compilerOptions: {
        noEmit: true,
        rootDir: resolve('.'),
        noUnusedLocals: false,
        types: ['node'],
        typeRoots: [resolve('node_modules/@types')],
        paths: { graphmill: [resolve('src/index.ts')] },
      },
      include: ['*.ts'],
    }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    await run('node_modules/.bin/tsc', ['-p', folder]).catch((error: { stdout: string }) => {
      throw new Error(error.stdout)
    })
  }, 120_000)

  const commands = blocks
    .filter(({ language }) => language === 'sh')
    .flatMap(({ page, line, code }) =>
      code
        .replaceAll(/\\\n\s*/g, ' ')
        .split('\n')
        .map((text) => /(?:node bin\/graphmill\.js|^graphmill)\s+(.*?)(?:\s+#|\s*[|>]|$)/.exec(text)?.[1])
        .filter((text) => text !== undefined)
        .map((text) => ({ page, line, words: text.split(/\s+/) })),
    )

  test('in sh use commands and flags that there are', async () => {
    expect(commands.length).toBeGreaterThan(3)
    const helps = new Map<string, Promise<string>>()
    const help = (path: readonly string[]) => {
      const key = path.join(' ')
      helps.set(key, helps.get(key) ?? graphmill([...path, '--help']).then(({ stdout }) => stdout))
      return helps.get(key)!
    }
    for (const { page, line, words } of commands) {
      const main = await help([])
      expect(main, `${page}:${line} ${words.join(' ')}`).toMatch(new RegExp(`^  ${words[0]}\\b`, 'm'))
      const own = await help([words[0]!])
      const sub = /^Commands:/m.test(own) && words[1] ? [words[0]!, words[1]] : [words[0]!]
      const usage = await help(sub)
      for (const flag of words.filter((word) => word.startsWith('--')))
        expect(usage, `${page}:${line} ${words.join(' ')}`).toContain(flag.split('=')[0])
    }
  }, 60_000)
})

// Completion, in a real bash and, if there is one, a real zsh: what the shell would offer.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { completionScript } from '../../../src/cli/commands/completion.ts'
import { commands } from '../../../src/cli/commands.ts'
import { headingOf } from '../../../src/config/options.ts'

let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-completion-'))
  for (const shell of ['bash', 'zsh'] as const)
    writeFileSync(join(folder, shell), await completionScript(shell, commands))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What `complete -F` gets for these words, of which the last is being typed. */
const inBash = (...words: string[]) =>
  `source "$1"; complete -p graphmill >/dev/null || exit 9
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}
_graphmill; printf '%s\\n' "\${COMPREPLY[@]}"`
const inZsh = (...words: string[]) =>
  `autoload -U compinit && compinit -u -d "$1.dump" && source "$1" || exit 9
[[ -n \${_comps[graphmill]} ]] || exit 9
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}
emulate sh -c '_graphmill'; print -l -- "\${COMPREPLY[@]}"`

const zsh = spawnSync('zsh', ['--version']).status === 0
if (!zsh) console.warn('completion in zsh is not tested: there is no zsh')

describe.each([
  ['bash', ['--norc', '--noprofile'], inBash, true],
  ['zsh', ['-f'], inZsh, zsh],
] as const)('%s', (shell, flags, script, isThere) => {
  const offered = (...words: string[]) => {
    const { status, stdout, stderr } = spawnSync(
      shell,
      [...flags, '-c', script('graphmill', ...words), shell, join(folder, shell)],
      {
        encoding: 'utf8',
      },
    )
    expect(stderr).toBe('')
    expect(status).toBe(0)
    // zsh does the matching itself: its `compgen` gives all words.
    const typed = words.at(-1) === '=' ? '' : words.at(-1)!
    return stdout.split('\n').filter((line) => line !== '' && (shell === 'bash' || line.startsWith(typed)))
  }

  test.skipIf(!isThere)('offers commands, subcommands, options and values', () => {
    expect(offered('e')).toEqual(['extract', 'eval', 'erase'])
    expect(offered('')).toEqual(expect.arrayContaining(Object.keys(commands)))
    expect(offered('topics', '')).toEqual(['create', 'describe', 'lag'])
    expect(offered('topics', 'lag', '--fl')).toEqual(['--flow', '--flows'])
    expect(offered('extract', '--format', 'n')).toEqual(['nquads'])
    expect(offered('extract', 'a.md', '--provenance', '=', 'su')).toEqual(['subgraph'])
    expect(offered('extract', '--rows-format', '=')).toEqual(['csv', 'jsonl'])
    expect(offered('tail', '--from', '')).toEqual(['earliest', 'latest'])
    expect(offered('parse', '--response-type', 'json')).toEqual(['json', 'jsonl'])
    expect(offered('extract', '--llm', 'off')).toEqual(['offline'])
    expect(offered('run', 'extract-a')).toEqual(['extract-agent-kg'])
    expect(offered('tail', 'trip')).toEqual(['triples'])
    expect(offered('completion', '')).toEqual(['bash', 'zsh'])
    expect(offered('extract', '--ext')).toEqual(['--extractors'])
    expect(offered('extract', '--extractors', 'def')).toEqual(['definitions'])
  })

  test.skipIf(!isThere)('offers nothing of its own for files and for what only the user knows', () => {
    for (const words of [
      ['extract', ''],
      ['extract', '--out', ''],
      ['extract', '--model', ''],
      ['nothing', ''],
    ])
      expect(offered(...words)).toEqual([])
  })
})

describe('the help', () => {
  test.each(Object.entries(commands))(
    'of %s has two examples, which the command understands',
    async (name, entry) => {
      const command = new Command(name)
      ;(await entry.load())(command)
      expect(entry.group).not.toBe('')
      expect(entry.examples.length).toBeGreaterThanOrEqual(2)
      for (const [parameters] of entry.examples) {
        const [first = '', ...rest] = parameters.split(' ')
        const target = command.commands.find((each) => each.name() === first) ?? command
        if (command.commands.length > 0) expect(target, parameters).not.toBe(command)
        const known = new Set(target.options.map(({ long }) => long))
        for (const word of [first, ...rest].filter((each) => each.startsWith('--')))
          expect(known, `${name} ${parameters}`).toContain(word)
      }
    },
  )

  test('groups options', () => {
    expect(headingOf('broker')).toBe('Broker')
    expect(headingOf('sasl-password-file')).toBe('Broker')
    expect(headingOf('model')).toBe('Model')
    expect(headingOf('schemas')).toBe('Extraction')
    expect(headingOf('rows')).toBe('Output')
    expect(headingOf('log-level')).toBe('Operation')
    expect(headingOf('config')).toBe('Options')
  })
})

test.skipIf(!zsh)('a file in fpath of zsh completes at the first tab', async () => {
  writeFileSync(join(folder, '_graphmill'), await completionScript('zsh', commands))
  const script = String.raw`zmodload zsh/zpty; zpty z zsh -f -i
zpty -w z "PS1='> '; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -d $1/dump; graphmill() { :; }; echo rea''dy"
zpty -r z out '*ready*'; zpty -w -n z $'graphmill stat\t'; zpty -r z out '*status*'; print -r -- "$out"`
  const { stdout } = spawnSync('zsh', ['-f', '-c', script, 'zsh', folder], {
    encoding: 'utf8',
    timeout: 20_000,
  })
  expect(stdout).toContain('graphmill status')
})

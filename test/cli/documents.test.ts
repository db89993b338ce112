// `graphmill extract` with documents of every kind: unreadable ones are reported, and the others continue.
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { encrypt, makePdf, pdfBombs } from '../support/pdf.ts'
import { startGraphmill } from '../support/processes.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-cli-documents-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('a folder with good, locked, scanned, empty, hostile and foreign files produces the triples of the good ones', async () => {
  const pdf = await makePdf(['A windmill is a machine that grinds grain.'])
  const files: Record<string, string | Uint8Array> = {
    'page.html': '<html><body><h1>Mills</h1><p>A watermill is a mill that uses water.</p></body></html>',
    'paper.pdf': pdf,
    'locked.pdf': encrypt(pdf),
    'scan.pdf': await makePdf(['']),
    'none.pdf': await makePdf([]),
    'empty.txt': '',
    'bomb.pdf': pdfBombs(1024)['double Flate']!,
    'picture.png': Buffer.from('89504e470d0a1a0a00', 'hex'),
  }
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content)
  execFileSync('mkfifo', [join(folder, 'pipe.txt')])
  const child = startGraphmill([
    'extract',
    folder,
    join(folder, 'picture.png'),
    '--llm',
    'offline',
    '--no-cache',
    '--document-memory',
    '256',
  ])
  expect((await child.ended).code).toBe(4)
  for (const runtime of ['windmill', 'watermill']) expect(child.stdout().toLowerCase()).toContain(runtime)
  for (const [name, code] of [
    ['locked.pdf', 'document_encrypted'],
    ['scan.pdf', 'document_scanned'],
    ['none.pdf', 'document_empty'],
    ['bomb.pdf', 'document_too_large'],
    ['empty.txt', 'document_empty'],
    ['picture.png', 'document_unsupported'],
  ])
    expect(child.stderr()).toMatch(new RegExp(`${name}: .*\\[${code}\\]`))
  expect(child.stderr()).toMatch(/documents +2 read, 6 failed/)
  expect(child.stderr()).toContain(`graphmill: ${folder}: 1 file skipped (.png); name it to read it.\n`)
  expect(child.stderr()).toContain(`graphmill: ${folder}/pipe.txt: skipped: it is a pipe, not a file.\n`)
  expect(child.stderr()).toContain('(--document-memory)')
})

import { expect, test } from 'vitest'
import { skippedLines } from '../../src/cli/skipped-files.ts'

const others = (...paths: string[]) => paths.map((path) => ({ path, why: 'ending' as const }))

test('counts the skipped files of a folder, and lists their extensions once each', () => {
  expect(skippedLines('only', others('only/b.rst', 'only/README', 'only/in/a.RST', 'only/x.bin'))).toEqual([
    'graphmill: only: 4 files skipped (.bin, .rst, no extension); name one to read it.',
  ])
  expect(skippedLines('only', others('only/README'))).toEqual([
    'graphmill: only: 1 file skipped (no extension); name it to read it.',
  ])
})

test('lists eight extensions, and that there are more', () => {
  const paths = Array.from({ length: 9 }, (_, index) => `only/file.e${index}`)
  expect(skippedLines('only', others(...paths))[0]).toContain('(.e0, .e1, .e2, .e3, .e4, .e5, .e6, .e7, …);')
})

test('lists each pipe, socket and device, and each link that leads out', () => {
  const skipped = [
    { path: 'only/p.txt', why: 'pipe' },
    { path: 'only/l.txt', why: 'outside' },
  ] as const
  expect(skippedLines('only', skipped)).toEqual([
    'graphmill: only/p.txt: skipped: it is a pipe, not a file.',
    'graphmill: only/l.txt: skipped: the link leads out of only; --follow-links reads it.',
  ])
})

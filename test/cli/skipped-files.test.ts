import { expect, test } from 'vitest'
import { passedOverLine } from '../../src/cli/skipped-files.ts'

test('says how many files of a folder were passed over, and their endings once each', () => {
  expect(passedOverLine('only', ['only/b.rst', 'only/README', 'only/in/a.RST', 'only/x.bin'])).toBe(
    'graphmill: only: 4 files passed over (.bin, .rst, without ending); name one to have it read.',
  )
  expect(passedOverLine('only', ['only/README'])).toBe(
    'graphmill: only: 1 file passed over (without ending); name it to have it read.',
  )
})

test('shows eight endings, and that there are more', () => {
  const paths = Array.from({ length: 9 }, (_, index) => `only/file.e${index}`)
  expect(passedOverLine('only', paths)).toContain('(.e0, .e1, .e2, .e3, .e4, .e5, .e6, .e7, …);')
})

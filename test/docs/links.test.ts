import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { pages } from './blocks.ts'

/** The anchor that GitHub gives a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')

const anchorsOf = (page: string) =>
  [...readFileSync(page, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading))

test('links between the pages lead to existing files and headings', () => {
  const links = pages.flatMap((page) =>
    [...readFileSync(page, 'utf8').matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(
      ([link, path = '', anchor]) => ({ page, link, path: path ? join(dirname(page), path) : page, anchor }),
    ),
  )
  expect(links.length).toBeGreaterThan(50)
  const broken = links.filter(
    ({ path, anchor }) => !existsSync(path) || (anchor !== undefined && !anchorsOf(path).includes(anchor)),
  )
  expect(broken.map(({ page, link }) => `${page} ${link}`)).toEqual([])
})

test('the index of the docs lists every page', () => {
  const index = readFileSync('docs/README.md', 'utf8')
  const names = pages.filter((page) => page.startsWith('docs/')).map((page) => page.slice('docs/'.length))
  expect(names.filter((name) => name !== 'README.md' && !index.includes(`](${name})`))).toEqual([])
})

test('the package ships what its pages link to', () => {
  const { files } = JSON.parse(readFileSync('package.json', 'utf8')) as { files: string[] }
  const isShipped = (path: string) => files.some((name) => path === name || path.startsWith(`${name}/`))
  const links = pages.filter(isShipped).flatMap((page) =>
    [...readFileSync(page, 'utf8').matchAll(/\]\((?!https?:)([^)#\s]+)/g)].map(([, path = '']) => ({
      page,
      path: join(dirname(page), path),
    })),
  )
  expect(links.length).toBeGreaterThan(50)
  expect(links.filter(({ path }) => !isShipped(path))).toEqual([])
})

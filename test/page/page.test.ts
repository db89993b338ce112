// The HTML page of a graph in a real browser: opened, searched, clicked, filtered.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definitionTriples, relationshipTriples } from '../../src/rdf/facts.ts'
import { createGraphBuilder } from '../../src/rdf/graph.ts'
import { graphPage } from '../../src/rdf/graph-page.ts'
import { documentProvenance, groundingProvenance } from '../../src/rdf/provenance.ts'
import { browserPath, openBrowser, openFilePage } from '../support/browser.ts'

let folder: string
let browser: Browser
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'graph-page-'))
  if (browserPath) browser = await openBrowser()
})
afterAll(async () => {
  await browser?.close()
  rmSync(folder, { recursive: true, force: true })
})

const relation = (subject: string, predicate: string, object: string) =>
  relationshipTriples({ subject, predicate, object, objectEntity: true })

const span = (text: string, start: number) => ({
  ...{ field: 'subject', match: 'exact', text, page: 3 },
  ...{ offset: start, length: text.length, start, end: start + text.length },
})

function smallGraph() {
  const facts = [
    { ...relation('chalk', 'is composed of', 'carbonic acid'), spans: [span('Chalk', 10)] },
    { ...relation('Norwich', 'stands on', 'chalk'), spans: [] },
    {
      ...definitionTriples({ entity: 'chalk', definition: 'a <b>soft</b> rock </script><script>x' }),
      spans: [],
    },
  ]
  const builder = createGraphBuilder()
  const documentId = 'urn:graphmill:document:1'
  builder.add(facts.flatMap(({ triples }) => triples))
  builder.add(documentProvenance({ documentId, title: 'a piece of chalk', uri: '', mediaType: '' }))
  const grounded = facts.map(({ stated, spans }) => ({
    stated,
    grounding: { status: spans.length > 0 ? 'exact' : 'ungrounded', spans },
  }))
  builder.add(groundingProvenance({ chunkId: `${documentId}/0/0`, unit: 'x', documentId }, grounded))
  return builder.build()
}

function largeGraph(facts: number) {
  const builder = createGraphBuilder()
  for (let at = 0; at < facts; at++)
    builder.add(
      relation(`entity ${at % 9973}`, `relates to ${at % 50}`, `entity ${(at * 7 + 1) % 9973}`).triples,
    )
  return builder.build()
}

function written(name: string, html: string): URL {
  const path = join(folder, name)
  writeFileSync(path, html)
  return pathToFileURL(path)
}

const cells = (page: Page) =>
  page
    .locator('#facts tr')
    .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)))

describe.skipIf(!browserPath)('in Chromium', () => {
  test('shows every fact with its place, finds entities, and follows neighbours', async () => {
    const { page, requests, errors } = await openFilePage(
      browser,
      written('small.html', graphPage(smallGraph(), 'A & B')),
    )
    expect(await page.title()).toBe('A & B')
    expect(await cells(page)).toEqual([
      ['chalk', 'is composed of', 'carbonic acid', '“Chalk”a piece of chalk, page 3, characters 10 to 15'],
      ['Norwich', 'stands on', 'chalk', 'not found in the text'],
      ['chalk', 'definition', 'a <b>soft</b> rock </script><script>x', 'not found in the text'],
    ])
    await page.getByLabel('Find an entity').fill('nor')
    await page.getByLabel('Entities that were found').getByRole('button', { name: 'Norwich' }).click()
    expect(await page.locator('#name').textContent()).toBe('Norwich')
    expect(await cells(page)).toHaveLength(1)
    await page.locator('#facts').getByRole('button', { name: 'chalk' }).click()
    expect(await cells(page)).toHaveLength(3)
    await page.getByLabel('definition').uncheck()
    expect(await cells(page)).toHaveLength(2)
    expect(await page.locator('#caption').textContent()).toBe('2 facts')
    expect([requests, errors]).toEqual([[], []])
    await page.close()
  })

  test('draws all of a small graph, and chooses the entity that is clicked', async () => {
    const { page } = await openFilePage(browser, written('drawn.html', graphPage(smallGraph(), 'small')))
    await page.waitForSelector('#graph canvas')
    expect(await page.locator('#drawn').textContent()).toBe('')
    await expect.poll(() => discs(page)).toEqual({ plain: 3, chosen: 0, lines: true })
    const chosen = await clickNodes(page)
    expect(['chalk', 'Norwich', 'carbonic acid']).toContain(chosen)
    await expect.poll(() => discs(page)).toEqual({ plain: 2, chosen: 1, lines: true })
    await page.close()
  })

  test('can be used with the keyboard alone', async () => {
    const { page } = await openFilePage(browser, written('keys.html', graphPage(smallGraph(), 'small')))
    await page.keyboard.press('Tab')
    await page.keyboard.type('carbonic')
    await page.keyboard.press('Enter')
    expect(await page.locator('#name').textContent()).toBe('carbonic acid')
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('name')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    expect(await page.locator('#name').textContent()).toBe('chalk')
    await page.close()
  })

  test('opens 50,000 facts, and draws the neighbours of what is found', async () => {
    const url = written('large.html', graphPage(largeGraph(50_000), 'large'))
    const begun = performance.now()
    const { page, errors } = await openFilePage(browser, url)
    const opened = performance.now() - begun
    // The goal is 3 s; a busy machine takes longer.
    expect(opened).toBeLessThan(30_000)
    expect(await cells(page)).toHaveLength(100)
    expect(await page.locator('#drawn').textContent()).toMatch(/^\d+ of 9973 entities are drawn/)
    await page.getByRole('button', { name: 'Show more facts' }).click()
    expect(await cells(page)).toHaveLength(200)
    await page.getByLabel('Find an entity').fill('entity 42')
    await page.keyboard.press('Enter')
    expect(await page.locator('#name').textContent()).toMatch(/^entity 42/)
    expect(errors).toEqual([])
    await page.close()
  })
})

/** Clicks over the drawing until an entity is chosen; returns its name. */
async function clickNodes(page: Page): Promise<string | null> {
  const box = (await page.locator('#graph').boundingBox())!
  for (let y = 20; y < box.height; y += 14)
    for (let x = 20; x < box.width; x += 14) {
      await page.mouse.move(box.x + x, box.y + y)
      // Sigma shows a hand over a node.
      const over = await page.locator('#graph').evaluate((graph) => graph.style.cursor === 'pointer')
      if (!over) continue
      await page.mouse.click(box.x + x, box.y + y)
      return page.locator('#name').textContent()
    }
  return null
}

/** What a screenshot of the drawing shows: how many discs in the colours of entities, and whether lines are between them. */
async function discs(page: Page): Promise<{ plain: number; chosen: number; lines: boolean }> {
  const image = (await page.locator('#graph').screenshot()).toString('base64')
  return page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
    const bitmap = await createImageBitmap(new Blob([bytes]))
    const { width, height } = bitmap
    const context = new OffscreenCanvas(width, height).getContext('2d')!
    context.drawImage(bitmap, 0, 0)
    const { data } = context.getImageData(0, 0, width, height)
    const near = (at: number, colour: readonly number[]) =>
      colour.every((value, channel) => Math.abs(data[at * 4 + channel]! - value) < 16)
    /** Regions of one colour that are larger than a letter. */
    const regions = (colour: readonly number[]) => {
      const open = new Set([...Array(width * height).keys()].filter((at) => near(at, colour)))
      let found = 0
      for (const first of open) {
        const region = [first]
        open.delete(first)
        for (const at of region)
          for (const next of [at - 1, at + 1, at - width, at + width])
            if (open.delete(next)) region.push(next)
        if (region.length > 30) found++
      }
      return found
    }
    const grey = [...Array(width * height).keys()].filter((at) => near(at, [0xbb, 0xbb, 0xbb]))
    return {
      plain: regions([0x0b, 0x6b, 0xcb]),
      chosen: regions([0xc2, 0x41, 0x0c]),
      lines: grey.length > 30,
    }
  }, image)
}

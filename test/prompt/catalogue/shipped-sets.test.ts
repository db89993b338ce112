// The prompt sets that TrustGraph ships: TRUSTGRAPH_SETS names a folder with one configuration for each version, `conf-<version>.json`.
// They are not part of graphmill.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadCatalogue } from '../../../src/prompt/catalogue/catalogue.ts'

const folder = process.env['TRUSTGRAPH_SETS'] ?? ''
const sets = existsSync(folder) ? readdirSync(folder).filter((name) => /^conf-.*\.json$/.test(name)) : []
if (sets.length === 0)
  process.stderr.write('the prompt sets of TrustGraph: skipped, TRUSTGRAPH_SETS names no folder of them\n')

const terms = {
  ...{ text: 'Mills grind.', context: 'Mills.', question: 'Why?', query: 'mills', knowledge: [], tools: [] },
  ...{ documents: ['A mill.'], entities: ['mill'], schemas: [], schema: { name: 'mill', fields: [] } },
  ...{ classes: { Mill: { comment: 'It grinds.' } }, object_properties: {}, datatype_properties: {} },
}

describe.skipIf(sets.length === 0)('the prompt sets of TrustGraph', () => {
  test.each(sets)(
    '%s loads whole, over the built-in prompts and instead of them, and renders',
    async (name) => {
      const path = join(folder, name)
      const values = JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>
      const ids = Object.keys(values).flatMap((key) => /^template\.(.*)/.exec(key)?.[1] ?? [])
      const over = await loadCatalogue([path])
      const instead = await loadCatalogue([], { path: name, bytes: readFileSync(path) })
      expect(ids.length).toBeGreaterThan(10)
      expect(instead.ids()).toEqual([...ids].sort())
      for (const id of ids) {
        const rendered = instead.get(id).render(terms)
        expect(rendered.user.trim(), id).not.toBe('')
        expect(rendered.system).toBe(JSON.parse(values['system']!))
        expect(over.get(id).render(terms), id).toEqual(rendered)
      }
    },
  )
})

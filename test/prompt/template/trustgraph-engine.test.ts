// The same templates and terms for TrustGraph 2.11.1's own prompt manager and for ours: the prompts are equal, byte for byte.
import { execFile } from 'node:child_process'
import { expect, test } from 'vitest'
import { loadCatalogue } from '../../../src/prompt/catalogue/catalogue.ts'
import { decodeTerms } from '../../../src/prompt/catalogue/terms.ts'
import { installTrustGraph } from '../../support/trustgraph/installation.ts'
import { golden, likeShipped, termSets, terms } from '../../support/trustgraph/templates.ts'

const python = await installTrustGraph("TrustGraph's template engine")

const script = `
import json, sys
from trustgraph.template.prompt_manager import PromptManager
given = json.load(sys.stdin)
manager = PromptManager()
manager.load_config(given["config"])
print(json.dumps([manager.render(id, {k: json.loads(v) for k, v in terms.items()}) for id, terms in given["cases"]]))
`

function rendered(config: object, cases: readonly unknown[]): Promise<readonly string[]> {
  return new Promise((done, failed) => {
    const child = execFile(python!, ['-c', script], (error, stdout) =>
      error ? failed(error) : done(JSON.parse(stdout)),
    )
    child.stdin!.end(JSON.stringify({ config, cases }))
  })
}

test.skipIf(python === undefined)(
  'prompts render as in TrustGraph, with an index of templates and without',
  async () => {
    const templates = {
      ...likeShipped,
      ...Object.fromEntries(golden.map(([source], at) => [`g${at}`, source])),
    }
    const values = {
      system: JSON.stringify('Be brief.'),
      ...Object.fromEntries(
        Object.entries(templates).map(([id, prompt]) => [
          `template.${id}`,
          JSON.stringify({ prompt, 'response-type': 'text' }),
        ]),
      ),
    }
    const sets = termSets.map((set) =>
      Object.fromEntries(Object.entries(set).map(([name, value]) => [name, JSON.stringify(value)])),
    )
    const cases = [
      ...Object.keys(likeShipped).flatMap((id) => sets.map((set) => [id, set] as const)),
      ...golden.map((_, at) => [`g${at}`, terms] as const),
    ]
    const theirs = await rendered(values, cases)
    for (const config of [values, { ...values, 'template-index': JSON.stringify(Object.keys(templates)) }]) {
      const catalogue = await loadCatalogue([], {
        path: 'prompts.json',
        bytes: Buffer.from(JSON.stringify(config)),
      })
      const ours = cases.map(([id, set]) => catalogue.get(id).render(decodeTerms(set)).user)
      expect(ours).toEqual(theirs)
    }
  },
)

// A made-up ontology of the size of a public one, as Turtle: classes of a trade in things, in a hierarchy with several parents.

const prefixes = `@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix t: <http://example.org/trade#> .

<http://example.org/trade> a owl:Ontology .
`

const stuffs =
  'oak elm iron brass copper wool linen clay glass slate leather paper wax salt chalk flint silk hemp pewter ivory bone horn cork reed straw'.split(
    ' ',
  )
const uses =
  'kitchen garden harbour mill market school church ship farm forge office stable road bridge cellar attic tower yard quarry mine'.split(
    ' ',
  )
const things =
  'bowl wheel gate lamp rope chest ladder bell hinge kettle sieve anchor barrel plough lever mould spindle shutter bucket clamp'.split(
    ' ',
  )

/** A Turtle text of `count` classes and a tenth as many properties. */
export function largeOntology(count: number): string {
  const lines = [prefixes]
  const name = (index: number) => {
    const [stuff, use, thing] = [
      stuffs[index % stuffs.length]!,
      uses[Math.floor(index / 25) % uses.length]!,
      things[Math.floor(index / 500) % things.length]!,
    ]
    const capital = (word: string) => word[0]!.toUpperCase() + word.slice(1)
    return {
      key: `${capital(stuff)}${capital(use)}${capital(thing)}${Math.floor(index / 10_000) || ''}`,
      label: `${stuff} ${use} ${thing}`,
      stuff,
      use,
      thing,
    }
  }
  for (let index = 0; index < count; index++) {
    const { key, label, stuff, use, thing } = name(index)
    const parents =
      index === 0
        ? []
        : [Math.floor((index - 1) / 6), ...(index % 7 === 0 ? [Math.floor((index - 1) / 9)] : [])]
    lines.push(
      `t:${key} a owl:Class ;\n  rdfs:label "${label}"@en ;\n  rdfs:comment "A ${thing} made of ${stuff}, of the kind that is found in any ${use} where ${stuff} is at hand, and kept there."@en${parents.map((parent) => ` ;\n  rdfs:subClassOf t:${name(parent).key}`).join('')} .`,
    )
    if (index % 10 !== 0) continue
    const other = name((index * 31) % count)
    const end =
      index % 20 === 0
        ? `a owl:DatatypeProperty ; rdfs:range xsd:decimal`
        : `a owl:ObjectProperty ; rdfs:range t:${other.key}`
    lines.push(
      `t:p${index} ${end} ;\n  rdfs:label "${thing} of the ${other.use}"@en ; rdfs:domain t:${key} .`,
    )
  }
  return `${lines.join('\n')}\n`
}

/** A chunk of prose of about 2,000 characters. */
export function chunkText(seed: number): string {
  const pick = (list: readonly string[], step: number) => list[(seed * 7 + step * 13) % list.length]!
  const sentences = Array.from(
    { length: 24 },
    (_, step) =>
      `In the ${pick(uses, step)} stood a ${pick(stuffs, step + 1)} ${pick(things, step)}, which the master of the ${pick(uses, step + 3)} had bought in the spring.`,
  )
  return sentences.join(' ').slice(0, 2000)
}

// What the offline rules find in real prose, and what they leave out.
import { describe, expect, it } from 'vitest'
import { extractions } from '../../../src/llm/offline/extract.ts'

const find = (kind: string, text: string) =>
  extractions[`extract-${kind}`]!(text).map((item) => Object.values(item).join(' | '))

const runtimes = `# Windmills

A windmill is a machine that converts the energy of the wind into rotation. Windmills were used in Persia as
early as the ninth century. The post mill is the earliest type of European windmill. Its whole body, which
houses the machinery, is mounted on a single vertical post. The mill at Outwood was built by Thomas Budgen in 1665.
In a tower mill only the cap is rotated. Edmund Lee patented the fantail. It turns the cap automatically.
Andrew Meikle, a Scottish engineer, also invented the threshing machine. Waterwheels and windmills provided most of
the power of Europe until steam engines replaced them.`

const origin = `When on board H.M.S. 'Beagle,' as naturalist, I was much struck with certain facts in the distribution
of the inhabitants of South America. These facts seemed to me to throw some light on the origin of species—that
mystery of mysteries. The rock-pigeon, Columba livia, is the ancestor of all domestic breeds. Fossils preserve the
remains of extinct animals. Charles Darwin wrote On the Origin of Species.`

const scandal = `To Sherlock Holmes she is always the woman. I have seldom heard him mention her under any other name.
It was not that he felt any emotion akin to love for Irene Adler. "Wedlock suits you," he remarked. Irene Adler is an
opera singer. Doctor Watson married Mary Morstan. The King of Bohemia visited Baker Street.`

describe('definitions', () => {
  it('say what something is', () => {
    expect(find('definitions', runtimes)).toEqual([
      'windmill | a machine that converts the energy of the wind into rotation',
      'post mill | the earliest type of European windmill',
      'Andrew Meikle | a Scottish engineer',
    ])
    expect(find('definitions', origin)).toEqual(['rock-pigeon | the ancestor of all domestic breeds'])
    expect(find('definitions', scandal)).toEqual(['Irene Adler | an opera singer'])
  })

  it('end where the next clause begins', () => {
    const text =
      'Water, which is a compound of hydrogen and oxygen, boils. Chalk is a rock, and you can burn it.'
    expect(find('definitions', text)).toEqual(['water | a compound of hydrogen and oxygen', 'Chalk | a rock'])
    expect(find('definitions', 'In Norwich, the diggers found chalk.')).toEqual([])
  })

  it('are not made of pronouns, negations, questions or references', () => {
    const text = `It is a mill. This is a test. There is a house. He is the miller. My brother is a doctor.
    Steam is not a liquid. That one is the best. What is a mill? These facts are a problem.`
    expect(find('definitions', text)).toEqual([])
  })
})

describe('relationships', () => {
  it('are subject, verb and object, with the whole verb in lower case', () => {
    expect(find('relationships', runtimes)).toEqual([
      'windmill | is a | machine | true',
      'windmill | converts | energy of the wind | true',
      'windmills | were used in | Persia | true',
      'post mill | is | earliest type of European windmill | true',
      'mill at Outwood | was built by | Thomas Budgen | true',
      'mill at Outwood | was built in | 1665 | false',
      'Edmund Lee | patented | fantail | true',
      'Andrew Meikle | invented | threshing machine | true',
      'waterwheels | provided | power of Europe | true',
      'windmills | provided | power of Europe | true',
    ])
    expect(find('relationships', scandal)).toEqual([
      'Irene Adler | is an | opera singer | true',
      'Doctor Watson | married | Mary Morstan | true',
      'King of Bohemia | visited | Baker Street | true',
    ])
    expect(find('relationships', origin)).toContain(
      'Charles Darwin | wrote | On the Origin of Species | true',
    )
  })

  it('read a verb with its adjective or preposition, and lists', () => {
    expect(
      find('relationships', 'The bed of the Atlantic is covered with ooze. Grain falls from the hopper.'),
    ).toEqual(['bed of the Atlantic | is covered with | ooze | true', 'Grain | falls from | hopper | true'])
    expect(find('relationships', 'Marie Curie discovered polonium and radium.')).toHaveLength(2)
    expect(find('relationships', 'Chalk, in fact, is a compound of gas and lime, and it burns.')).toEqual([
      'Chalk | is a | compound of gas and lime | true',
    ])
  })

  it('are not repeated', () => {
    const once = find('relationships', 'The miller grinds the grain.')
    expect(once).toEqual(['miller | grinds | grain | true'])
    expect(find('relationships', 'The miller grinds the grain. The miller grinds the grain.')).toEqual(once)
  })
})

describe('topics', () => {
  it('are what a text mentions most, explained by it', () => {
    const topics = find('topics', runtimes)
    expect(topics[0]).toBe('windmill | a machine that converts the energy of the wind into rotation')
    expect(topics.length).toBeLessThanOrEqual(6)
    expect(find('topics', scandal)).toContain('Irene Adler | an opera singer')
  })
})

describe('every kind', () => {
  const kinds = ['definitions', 'relationships', 'topics']

  it('names no pronoun, no bare determiner and nothing empty', () => {
    const names = kinds.flatMap((kind) =>
      [runtimes, origin, scandal].flatMap((text) =>
        extractions[`extract-${kind}`]!(text).flatMap((item) => Object.values(item)),
      ),
    )
    for (const name of names.filter((value) => typeof value === 'string'))
      expect(name).not.toMatch(/^(it|this|that|these|he|she|they|i|you|the|a|an|there|)$/i)
  })

  it('finds nothing, and does not fail, in text that is no prose', () => {
    for (const text of ['', ' \n ', '#', '\u0000\ud800', '[[[[', '1 2 3', '|a|b|\n|-|-|'])
      for (const kind of kinds) expect(find(kind, text).filter((line) => !line.includes('a'))).toEqual([])
  })

  it('gives the same items for the same text with other line ends', () => {
    const rewrapped = runtimes.replaceAll(/(?<!\n)\n(?!\n)/g, ' ')
    for (const kind of kinds) {
      expect(find(kind, runtimes)).toEqual(find(kind, runtimes))
      expect(find(kind, rewrapped)).toEqual(find(kind, runtimes))
    }
  })
})

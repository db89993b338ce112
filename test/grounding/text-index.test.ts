import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { TextIndex } from '../../src/grounding/text-index.ts'
import { isStopWord, wordsOf } from '../../src/grounding/words.ts'

/** What stands at the first place of the value, with how it was found. */
function found(text: string, value: string): string {
  const finding = new TextIndex(text).find(value)
  const place = finding?.places[0]
  return place ? `${finding.match}: ${text.slice(place.start, place.end)}` : 'none'
}

describe('a value is found', () => {
  test.each([
    ['exact', 'The Bass Rock is an island.', 'Bass Rock', 'exact: Bass Rock'],
    ['with a full stop of its own', 'She lives in the U.S. now.', 'U.S.', 'exact: U.S.'],
    ['in another case', 'The BASS rock is an island.', 'Bass Rock', 'normalized: BASS rock'],
    ['over a line end', 'The Bass\n  Rock is an island.', 'Bass Rock', 'normalized: Bass\n  Rock'],
    ['in the plural', 'Many gannets nest there.', 'gannet', 'normalized: gannets'],
    ['in the singular', 'The city is old.', 'Cities', 'normalized: city'],
    ['with another article', 'A great mill stood there.', 'the great mill', 'normalized: great mill'],
    ['without its hyphen', 'A steam powered mill.', 'steam-powered mill', 'normalized: steam powered mill'],
    ['hyphenated at a line end', 'the govern-\nment of France', 'Government', 'normalized: govern-\nment'],
    ['written in one word', 'She sent an email.', 'e-mail', 'normalized: email'],
    ['in camel case', 'The Albion Mills burned.', 'AlbionMills', 'normalized: Albion Mills'],
    ['in snake case', 'The Albion Mills burned.', 'albion_mills', 'normalized: Albion Mills'],
    ['with typographic apostrophes', 'Wyatt’s mill', "Wyatt's mill", 'normalized: Wyatt’s mill'],
    ['decomposed', 'the cafe\u0301 opens', 'café', 'normalized: cafe\u0301'],
    ['with ligatures', 'the o\ufb03ce opens', 'office', 'normalized: o\ufb03ce'],
    ['in full width', 'Sony と ＡＢＣ', 'ABC', 'normalized: ＡＢＣ'],
    ['with soft hyphens', 'the govern\u00adment', 'government', 'normalized: govern\u00adment'],
    ['as a number with separators', 'It cost 1,000,000 pounds.', '1000000', 'normalized: 1,000,000'],
    ['as a number in words', 'It had twenty pairs of stones.', '20', 'normalized: twenty'],
    ['as a number with its zeros', 'It weighs 3.50 kg.', '3.5', 'normalized: 3.50'],
    ['in Chinese', '東京は日本の首都です。', '日本', 'exact: 日本'],
    ['as an emoji', 'I like 😀 and 🦀.', '🦀', 'exact: 🦀'],
    ['as signs', 'a → b', '→', 'exact: →'],
    [
      'with a word more in the text',
      'John Quincy Adams was president.',
      'John Adams',
      'fuzzy: John Quincy Adams',
    ],
    ['with a small word less', 'the Firth of Forth', 'Firth of the Forth', 'fuzzy: Firth of Forth'],
    ['as a date by its year', 'Born on 1 May 1821.', '1821-05-01', 'fuzzy: 1821'],
    ['as a date with numbers', 'Born on 01.05.1821.', '1821-05-01', 'fuzzy: 01.05.1821'],
    ['as a date in another order', 'Born on 1 May 1821.', 'May 1, 1821', 'fuzzy: 1821'],
    ['as a date of which the text has the year', 'Born in 1821.', '1821-05-01', 'fuzzy: 1821'],
    ['as an abbreviation without dots', 'She lives in the U.S. now.', 'US', 'normalized: U.S'],
    ['as an abbreviation with dots', 'She lives in the US now.', 'U.S.', 'normalized: US'],
    ['with initials', 'J. R. R. Tolkien wrote it.', 'J.R.R. Tolkien', 'normalized: J. R. R. Tolkien'],
    ['with half of a double name', 'Ann and Bob Smith met.', 'Ann Smith', 'fuzzy: Ann and Bob Smith'],
    ['in the irregular plural', 'Women and children', 'woman', 'normalized: Women'],
    ['with an f', 'The wolves left.', 'wolf', 'normalized: wolves'],
    ['with an o', 'All heroes die.', 'hero', 'normalized: heroes'],
    ['with an s', 'Many buses stop.', 'bus', 'normalized: buses'],
    ['as a Greek word', 'Two analyses differ.', 'analysis', 'normalized: analyses'],
    [
      'without accents in the value',
      'Gabriel García Márquez',
      'Garcia Marquez',
      'normalized: García Márquez',
    ],
    ['without accents in the text', 'ΑΡΙΣΤΟΤΕΛΗΣ', 'Αριστοτέλης', 'normalized: ΑΡΙΣΤΟΤΕΛΗΣ'],
    ['with another sharp s', 'Die Strasse', 'Straße', 'normalized: Strasse'],
    ['with letters without accents', 'Łódź is a city.', 'Lodz', 'normalized: Łódź'],
    ['with a dotted capital', 'İSTANBUL', 'istanbul', 'normalized: İSTANBUL'],
    ['with Arabic vowels', 'نَجِيب مَحفُوظ', 'نجيب محفوظ', 'normalized: نَجِيب مَحفُوظ'],
    ['with Hebrew vowels', 'יְרוּשָׁלַיִם', 'ירושלים', 'normalized: יְרוּשָׁלַיִם'],
    ['with a Korean ending', '서울은 수도이다.', '서울', 'exact: 서울'],
    ['as a number with a decimal comma', 'es wiegt 3,5 kg', '3.5', 'normalized: 3,5'],
    ['as a number with dots', 'Es hat 1.000.000 Einwohner.', '1000000', 'normalized: 1.000.000'],
    ['as a number with one dot', 'Es hat 1.500 Einwohner.', '1500', 'normalized: 1.500'],
    ['as a number with a word', 'about 1.5 million people', '1,500,000', 'normalized: 1.5 million'],
    ['as percent', 'It grew by 5%.', '5 percent', 'normalized: 5%'],
  ])('%s', (_, text, value, expected) => expect(found(text, value)).toBe(expected))
})

test.each([
  ['a part of a word', 'We went to a party.', 'art'],
  ['the same with another number', 'It has a height of 207 metres today.', 'height of 107 metres today'],
  ['the same with another name', 'The University of Cambridge is old.', 'University of Oxford'],
  ['the reverse', 'Germany defeated France.', 'France defeated Germany'],
  ['words that stand far apart', 'Bass is a fish. There is a lot of it. A rock is a stone.', 'Bass Rock'],
  ['C++ where the text says C', 'It is written in C.', 'C++'],
  ['a surname where the text has another person', 'John Smith was there.', 'Mary Smith'],
  ['characters of another word', '東京は日本の首都です。', '京都'],
  ['a date with another day', 'Born on 3 May 1821.', '1821-05-01'],
  ['a date with another month', 'Born in June 1821.', '1821-05-01'],
  ['a date with another year', 'Born on 1 May 1821.', '1 May 1831'],
  ['a number in other hundreds', 'It has 21.500 inhabitants.', '1500'],
  ['a number with another unit', 'about 1.5 billion people', '1500000'],
  ['a decimal as thousands', 'It weighs 1.5 kg.', '1500'],
  ['a name from two people', 'Ann Lee and Bob Smith met.', 'Ann Smith'],
  ['half of a name far away', 'Ann and my friend Bob Smith met.', 'Ann Smith'],
  ['a Japanese sign without its voice mark', 'ガラス', 'カラス'],
  ['nothing at all', '', 'Bass Rock'],
])('%s is not found', (_, text, value) => expect(found(text, value)).toBe('none'))

test('a value that stands in the text is found, whatever is around it', () => {
  const word = fc.stringMatching(/^[a-zäé東💧]{1,6}$/u)
  const words = fc.array(word, { minLength: 1, maxLength: 8 })
  const around = fc.array(word, { maxLength: 12 })
  fc.assert(
    fc.property(around, words, around, (before, value, behind) => {
      const text = [...before, ...value, ...behind].join(' ')
      const finding = new TextIndex(text).find(value.join(' '))
      expect(finding?.match).toBe('exact')
      for (const { start, end } of finding!.places) expect(text.slice(start, end)).toBe(value.join(' '))
    }),
  )
})

test('a fuzzy passage is the most similar of all, as if all were compared', () => {
  const letter = fc.constantFrom('ka', 'lo', 'mu', 'ni', 'pe')
  const words = (maxLength: number) => fc.array(letter, { minLength: 2, maxLength })
  fc.assert(
    fc.property(words(14), words(5), (text, value) => {
      const finding = new TextIndex(text.join(' ')).find(value.join(' '))
      if (finding && finding.match !== 'fuzzy') return
      const passages = text.flatMap((_, from) =>
        text.slice(from).map((_, length) => text.slice(from, from + length + 1)),
      )
      const scoreOf = (passage: readonly string[]) => 8 * common(value, passage) - 3 * passage.length
      const similar = passages.filter((passage) => scoreOf(passage) >= 3 * value.length)
      const good = similar.filter((passage) => hasContent(value, passage))
      const place = finding?.places[0]
      const passage = place && text.join(' ').slice(place.start, place.end).split(' ')
      if (passage) expect(good.map(String)).toContain(String(passage))
      if (good.length === similar.length && similar.length > 0)
        expect(passage && scoreOf(passage)).toBe(Math.max(...similar.map(scoreOf)))
    }),
    { numRuns: 2000 },
  )
})

function hasContent(value: readonly string[], passage: readonly string[]): boolean {
  const content = value.filter((word) => !isStopWord(wordsOf(word)[0]!.key))
  return 4 * content.filter((word) => !passage.includes(word)).length <= content.length
}

function common([first, ...rest]: readonly string[], passage: readonly string[]): number {
  if (first === undefined) return 0
  const at = passage.indexOf(first)
  const without = common(rest, passage)
  return at < 0 ? without : Math.max(without, 1 + common(rest, passage.slice(at + 1)))
}

describe('the sentence of a statement', () => {
  const text =
    'The Bass Rock is an island. Gannets, large white birds, dive for fish. It rains.\n\nDr. Who? 日本は国です。東京は首都です。'
  const sentence = (statement: string) => {
    const place = new TextIndex(text).findSentence(statement)?.places[0]
    return place && text.slice(place.start, place.end)
  }
  test('is the one with most of its words', () => {
    expect(sentence('A large white bird that dives for fish.')).toBe(
      'Gannets, large white birds, dive for fish',
    )
    expect(sentence('首都は東京')).toBe('東京は首都です')
  })
  test('is none when it would have less than half of the words', () => {
    expect(sentence('A grey whale that dives near Antarctica.')).toBeUndefined()
    expect(sentence('')).toBeUndefined()
  })
})

test('a value is found in the same places each time, also after many others', () => {
  const index = new TextIndex('The mill by the river.')
  const first = index.find('river')
  for (let n = 0; n < 500; n++) expect(index.find(`mill ${n}`)).toBeUndefined()
  expect(index.find('river')).toEqual(first)
  expect(first?.places).toHaveLength(1)
})

test('megabytes of one word do not exhaust the stack', () => {
  for (const letter of ['x', '1', 'a\u0301', '\u0301', '1.', 'A.', '\u1100'])
    expect(new TextIndex(letter.repeat(2 ** 21)).find('no such word')).toBeUndefined()
})

test('the time is linear in the text, also when it repeats itself', () => {
  const measure = (size: number) => {
    const texts = ['a b '.repeat(size), 'x'.repeat(4 * size), '😀'.repeat(size), 'a, '.repeat(size)]
    const started = process.cpuUsage()
    for (const text of texts) {
      const index = new TextIndex(text)
      for (const value of [
        'a b '.repeat(400),
        'a a b',
        'x'.repeat(180),
        `${'a b '.repeat(30)}c`,
        '😀😀',
        'b, a',
      ])
        index.find(value)
      index.findSentence('a b c d e f')
    }
    return process.cpuUsage(started).user / 1000
  }
  measure(5_000)
  const once = measure(20_000)
  expect(measure(80_000)).toBeLessThan(12 * once + 500)
})

// What the offline rules make of texts of many kinds: sensible facts of English prose, and nothing of all else.
import { readFileSync } from 'node:fs'
import { describe, expect, it, test } from 'vitest'
import { splitText } from '../../../src/documents/split.ts'
import { extractions } from '../../../src/llm/offline/extract.ts'
import { proseOf } from '../../../src/llm/offline/prose.ts'

/** All facts of a text, as lines. */
const factsOf = (text: string) =>
  ['definitions', 'relationships', 'topics'].flatMap((kind) =>
    extractions[`extract-${kind}`]!(text).map((item) => Object.values(item).join(' | ')),
  )

/** The same sentence in the place of data, of code or of a menu: it must not become a fact there. */
const bait = 'The mill is a machine.'

const noProse: Readonly<Record<string, string>> = {
  'a menu': `Home\nAbout us\nProducts & Services\nContact\nSign in | Register | Help\nSkip to main content
Toggle navigation\nNews Blog Careers Press\nSearch\n© 2024 Acme Mills Ltd. All rights reserved. Privacy policy. Terms of use.`,
  'a table of contents':
    'Contents\n1. The mill is a machine ........ 3\n2. The post mill ......... 14\nIndex 200',
  'a log': `2026-01-02T03:04:05.123Z INFO server started on port 8080
2026-01-02 03:04:06,001 ERROR com.acme.Main - ${bait}
Jan  2 03:04:07 host sshd[2420]: Accepted password for root from 10.0.0.1 port 22 ssh2
127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326
{"level":30,"pid":1,"msg":"${bait}"}
java.lang.IllegalStateException: The pool is a closed pool.
\tat com.acme.Pool.get(Pool.java:40)
INFO: ${bait}`,
  JSON: JSON.stringify(
    { name: 'mill', text: `${bait} Edmund Lee patented the fantail.`, list: [bait] },
    null,
    2,
  ),
  'JSON in one line': JSON.stringify({ name: 'mill', text: bait, list: [bait, 'b'] }),
  'JSON Lines': `{"type":"definition","entity":"mill","definition":"${bait}"}\n{"a":"${bait}"}`,
  CSV: `name,age,city,remark\nAlice,30,Paris,"${bait}"\nBob,41,London,is a teacher\n"Carol, C.",22,Rome,"She said ""hi"""`,
  'CSV with semicolons': `name;age;remark\nAlice;30;${bait}\nBob;41;The cap is a roof.`,
  'tab-separated values': `name\tage\tremark\nAlice\t30\t${bait}`,
  'a Markdown table': `| name | remark |\n|---|---|\n| mill | ${bait} |`,
  YAML: `description: The topics that a text is about.\nname: the mill is a machine\nsteps:\n  - run: npm ci\n  - name: ${bait}`,
  settings: `[server]\nport = 80\nname = "${bait}"`,
  TypeScript: `// ${bait}\nimport { Broker } from './broker.ts'\nexport const shout = defineProcessor({ name: 'shout' })
for (const x of xs) {\n  if (x.ready) return x\n}\nfunction foo(a: string): void {\n  console.log('${bait}')\n}`,
  Python: `import os\nclass Foo(Bar):\n    def foo(self, x):\n        self.x = x\n        return os.path.join(x, "${bait}")`,
  'a fenced block': `~~~\n${bait}\n~~~\n\`\`\`sh\n${bait}\n\`\`\``,
  'front matter': `---\ntitle: ${bait}\n---\n`,
  'HTML that is no prose': `<html><head><title>${bait}</title><script>var a = "${bait}"</script></head>
<body><nav><a href="/">${bait}</a></nav><footer>${bait}</footer><!-- ${bait} --></body></html>`,
  German: `Die Windmühle ist eine Maschine. Andrew Meikle war ein Ingenieur. Die Mühle in Outwood wurde 1665 von Thomas Budgen gebaut.
Was war das? So ist es also in London.`,
  French:
    "Le moulin est une machine qui transforme l'énergie. Marie Curie est une physicienne. On a construit le moulin.",
  Spanish:
    'El molino es una máquina que convierte la energía. Marie Curie es una física. No has visto a la reina.',
  Italian: 'Il mulino a vento è una macchina. La regina ha visitato il museo di Torino in autunno.',
  Dutch: 'Een windmolen is een machine. De molen in Outwood is in 1665 gebouwd. Het water was warm of koud.',
  Danish: 'En mølle er en maskine, og den er i byen. Det var for at male korn.',
  Chinese: '第一台風車是一種機器。',
  headings: '# The mill is a machine\n\n## Windmills\n\nThe mill is a title\n==========',
}

describe('nothing is found in', () => {
  test.each(Object.entries(noProse))('%s', (_, text) => {
    expect(factsOf(text)).toEqual([])
    expect(factsOf(text.replaceAll('\n', '\r\n'))).toEqual([])
  })
})

describe('prose is found', () => {
  const mill = ['mill | a machine', 'mill | is a | machine | true', 'mill | a machine']

  test.each([
    ['in one line without a full stop', 'The mill is a machine'],
    ['below front matter', `---\ntitle: x\n---\n${bait}`],
    ['between fenced blocks', `\`\`\`sh\nnpm ci\n\`\`\`\n\n${bait}\n\n\`\`\`sh\nnpm start\n\`\`\``],
    ['in items of a list', `- ${bait}\n- Contact us`],
    ['in quoted lines of a message', `Dear Bob,\n\n> ${bait}\n\nBest regards,\nAlice`],
    ['with marks of Markdown', `The **mill** is a [machine](https://example.org).`],
    ['with marks of an encyclopaedia', `The '''mill''' is a [[machine tool|machine]].[1][2]`],
    [
      'in a page',
      `<nav>${bait.replace('mill', 'menu')}</nav><p>The <b>mill</b> is&nbsp;a machine.</p><p>Buy now</p>`,
    ],
    [
      'after a quotation in another language',
      `Il mulino è una macchina di legno per la farina.\n\n${bait} It is in the town.`,
    ],
    [
      'in dialogue',
      `"It is a long story," he said,\n"that nobody can tell to the end." The mill is a machine.`,
    ],
    ['beside an address', `${bait} It stands at https://example.org/a?b=c in the net. It ran on 03:04:05.`],
  ])('%s', (_, text) => expect(factsOf(text)).toEqual(mill))

  it('in the pages of a PDF, over the numbers and headers between them', () => {
    const text = `THE HISTORY OF MILLS                                 12
A windmill is a machine that converts the energy of the wind into rotation. Windmills were
used in Persia as early as the ninth century. Edmund Lee patented the

13
The History of Mills
fantail in 1745. The post mill is the earliest type of European windmill.
Page 14 of 200
Chapter 3. Tower Mills 14
In a tower mill only the cap is ro-
tated. Andrew Meikle invented the threshing machine.`
    const facts = factsOf(text)
    expect(facts).toContain('Edmund Lee | patented | fantail | true')
    expect(facts).toContain('Andrew Meikle | invented | threshing machine | true')
    expect(facts).toContain('post mill | the earliest type of European windmill')
    expect(facts.join('\n')).not.toMatch(/history|chapter|\b1[234]\b/i)
    expect(proseOf(text)).toContain('only the cap is rotated.')
  })

  it('without the halves of sentences at both ends of a chunk', () => {
    const text = `machine is a stone. The mill is a machine.\n\nThe cap turns. The fantail is a small`
    expect(factsOf(text)).toEqual(mill)
  })

  it('without paths, identifiers, options and calls as names', () => {
    const text =
      'The file `src/main.ts` is a module. The function `parseItems` is a reader. The option `--out` is a path. ' +
      'The name `a_b` is an identifier. parseItems() is a call.'
    expect(factsOf(text)).toEqual([])
  })
})

describe('a definition', () => {
  it('is no sentence, and ends before the next clause', () => {
    const texts = [readFileSync('README.md', 'utf8'), readFileSync('docs/architecture.md', 'utf8'), example]
    for (const kind of ['definitions', 'topics'])
      for (const item of texts.flatMap((text) => extractions[`extract-${kind}`]!(text))) {
        const { definition } = item as { definition: string }
        expect(definition).not.toMatch(/[.!?:;]|^[A-Z][a-z]+ (is|are|was|were) /)
      }
    expect(factsOf('A block that is a file says so.')).not.toContain('block | a file says so')
    expect(factsOf('Every arrow is a topic, and every message has an envelope.')).toContain('arrow | a topic')
  })
})

const example = readFileSync('examples/the-first-railways.md', 'utf8')

describe('the example', async () => {
  const chunks = (await splitText(example, { chunkSize: 2000, chunkOverlap: 100 })).map(({ text }) => text)
  const facts = new Set(chunks.flatMap(factsOf))

  test.each([
    'George Stephenson | an English engineer',
    'Stockton and Darlington Railway | the first public railway that used steam locomotives',
    'Robert Stephenson and Company | the first company that was set up to build railway locomotives',
    'William Huskisson | a member of parliament for Liverpool',
    'London and North Western Railway | a company that was formed in 1846',
    'George Stephenson | was born in | Wylam | true',
    'Robert Stephenson | built | Rocket | true',
    'Rocket | won | Rainhill Trials | true',
    'Duke of Wellington | opened | Liverpool and Manchester Railway | true',
    'Isambard Kingdom Brunel | designed | Clifton Suspension Bridge | true',
    'Grand Junction Railway | linked | Birmingham | true',
    'Robert Stephenson | was buried in | Westminster Abbey | true',
  ])('states: %s', (fact) => expect([...facts]).toContain(fact))

  it('has a graph in which most relationships hang together', () => {
    const edges = [...facts].filter((fact) => fact.endsWith('| true')).map((fact) => fact.split(' | '))
    expect(edges.length).toBeGreaterThan(40)
    const joined = new Map<string, string>()
    const root = (name: string): string => (joined.has(name) ? root(joined.get(name)!) : name)
    for (const [from = '', , to = ''] of edges) if (root(from) !== root(to)) joined.set(root(from), root(to))
    const sizes = new Map<string, number>()
    for (const [from = ''] of edges) sizes.set(root(from), (sizes.get(root(from)) ?? 0) + 1)
    expect(Math.max(...sizes.values())).toBeGreaterThan(edges.length / 2)
  })
})

describe('any text', () => {
  it('is read in linear time', () => {
    const units = [
      '[',
      '<a ',
      '</a><script>',
      '`',
      '*a',
      '"',
      '. ',
      '{',
      '\t',
      '<!--',
      '\n- ',
      '[[a|',
      'mill-\n',
      'The mill and\n',
    ]
    for (const unit of [...units, 'The mill is long, and it is long, and it is long,\n']) {
      const before = process.cpuUsage()
      proseOf(unit.repeat(300_000 / unit.length))
      expect(process.cpuUsage(before).user, unit).toBeLessThan(10_000_000)
    }
  })
})

// Documents of every kind, and what is none.
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { deflateSync } from 'node:zlib'
import { PDFDocument, PDFName, type PDFRef } from 'pdf-lib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { htmlText } from '../../src/documents/html.ts'
import { maxUnpackedBytes } from '../../src/documents/pdf-streams.ts'
import { openTree } from '../../src/documents/pdf-tree.ts'
import { findDocuments, type TextSource } from '../../src/documents/read.ts'
import { coded } from '../../src/errors.ts'
import { encrypt, forge, makePdf, update } from '../support/pdf.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-documents-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const never = new AbortController().signal

const written = async (name: string, content: string | Uint8Array): Promise<TextSource> => {
  await writeFile(join(folder, name), content)
  const [source] = await findDocuments(join(folder, name), never)
  return (await source!.prepare?.(never)) ?? source!
}

const textOf = async (source: TextSource) => {
  let text = ''
  for await (const piece of source.text()) text += piece
  return text
}

const failure = async (name: string, content: string | Uint8Array) => {
  try {
    await textOf(await written(name, content))
  } catch (thrown) {
    return coded(thrown)
  }
  throw new Error(`${name} was read`)
}

describe('HTML', () => {
  test('becomes its text: no links, scripts or styles', async () => {
    const page = `<!DOCTYPE html><html><head><title>T</title><style>p { color: red }</style></head><body>
      <h1>On mills</h1><p>A <a href="http://x.example/">mill</a> grinds &amp; turns.</p><script>steal()</script>
      <ul><li>stone</li><li>wheel</li></ul></body></html>`
    const source = await written('mills.html', page)
    expect(source.mediaType).toBe('text/html')
    const text = await textOf(source)
    expect(text).toMatch(/^On mills\n+A mill grinds & turns\.\n+ \* stone\n \* wheel$/)
  })

  test('in the encoding that it names', async () => {
    const page = Buffer.from('<html><meta charset="iso-8859-1"><p>Mühle</p></html>', 'latin1')
    expect(await textOf(await written('latin.htm', page))).toBe('Mühle')
    const lying = Buffer.from('<html><meta charset="utf-8"><p>Mühle</p></html>', 'latin1')
    expect(await failure('lying.htm', lying)).toMatchObject({ code: 'document_not_utf8' })
    expect(await failure('odd.htm', '<meta charset="no-such">')).toMatchObject({ code: 'document_not_utf8' })
  })

  test('of 20,000 tags inside one another is read', async () => {
    const page = `<html>${'<div>'.repeat(20_000)}A mill grinds.${'</div>'.repeat(20_000)}</html>`
    expect(await textOf(await written('deep.html', page))).toBe('A mill grinds.')
    // Here the stack is that of any thread.
    expect(() => htmlText(Buffer.from(page))).toThrow(
      expect.objectContaining({ code: 'document_broken', message: 'its tags are nested too deep.' }),
    )
  })
})

describe('PDF', () => {
  test('becomes its text, with the places where pages begin', async () => {
    const source = await written('two.pdf', await makePdf(['A mill\nis a machine.', '', 'It grinds.']))
    const text = await textOf(source)
    expect(text).toBe('A mill\nis a machine.\n\n\n\nIt grinds.')
    expect(source).toMatchObject({ mediaType: 'application/pdf', title: 'two.pdf' })
    expect(source.pages!.map((start) => text.slice(start, start + 6))).toEqual([
      'A mill',
      '\n\nIt g',
      'It gri',
    ])
  })

  test('of 2,000 pages is read whole, while the loop goes on', async () => {
    const bytes = await makePdf(Array.from({ length: 2000 }, (_, n) => `This is page ${n + 1}.`))
    let turns = 0
    const clock = setInterval(() => turns++, 10)
    const source = await written('long.pdf', bytes)
    clearInterval(clock)
    const text = await textOf(source)
    expect(source.pages).toHaveLength(2000)
    expect(text.slice(source.pages![1998])).toBe('This is page 1999.\n\nThis is page 2000.')
    expect(turns).toBeGreaterThan(20)
  })

  test.each([
    ['too many pages', /\/Count 3/, '/Count 9'],
    ['far too many pages', /\/Count 3/, '/Count 999999999'],
    ['too few pages', /\/Count 3/, '/Count 1'],
    ['fewer than no pages', /\/Count 3/, '/Count -1'],
    ['streams that are longer than the file', /\/Length \d+/g, '/Length 9999999'],
    ['a table at the wrong place', /startxref\n\d+/, 'startxref\n99999999'],
  ])('that claims %s is read whole', async (_, pattern, replacement) => {
    const pdf = forge(await makePdf(['one', 'two', 'three']), pattern, replacement)
    const source = await written('liar.pdf', pdf)
    expect(await textOf(source)).toBe('one\n\ntwo\n\nthree')
    expect(source.pages).toHaveLength(3)
  })

  test.each([1, 2, 0, -1, 9])(
    'with a compressed tree that claims %i pages of three is read whole',
    async (count) => {
      const pdf = await makePdf(['one', 'two', 'three'], { objectStreams: true, count })
      expect(Buffer.from(pdf).includes('/Kids')).toBe(false)
      const source = await written('compressed-liar.pdf', pdf)
      expect(await textOf(source)).toBe('one\n\ntwo\n\nthree')
      expect(source.pages).toHaveLength(3)
    },
  )

  test.each([true, false])(
    'from which a page was taken out later has only those that are left (compressed: %s)',
    async (objectStreams) => {
      const pdf = await makePdf(['one', 'two', 'three'], { objectStreams })
      const { pagesRef, kids } = await PDFDocument.load(pdf).then(({ catalog }) => ({
        pagesRef: catalog.get(PDFName.of('Pages')) as PDFRef,
        kids: catalog.Pages().Kids().asArray(),
      }))
      const left = `<< /Type /Pages /Kids [${kids[0]} ${kids[2]}] /Count 2 >>`
      const shorter = update(pdf, pagesRef.objectNumber, left)
      expect(openTree(shorter).pageObjects).toBe(3)
      expect(await textOf(await written('shorter.pdf', shorter))).toBe('one\n\nthree')
      const lying = update(pdf, pagesRef.objectNumber, left.replace('2 >>', '1 >>'))
      expect(await textOf(await written('shorter-liar.pdf', lying))).toBe('one\n\nthree')
    },
  )

  test('that can not be read says why', async () => {
    const pdf = await makePdf(['A mill is a machine.'])
    expect(await failure('locked.pdf', encrypt(pdf))).toMatchObject({ code: 'document_encrypted' })
    expect(await failure('scan.pdf', await makePdf(['', '']))).toMatchObject({ code: 'document_scanned' })
    expect(await failure('none.pdf', await makePdf([]))).toMatchObject({ code: 'document_empty' })
    const half = await failure('half.pdf', pdf.slice(0, pdf.length / 2))
    expect(half).toMatchObject({ code: 'document_broken', remedy: expect.stringMatching(/save it anew/) })
    expect(await failure('empty.pdf', '')).toMatchObject({ code: 'document_empty' })
    const text = await failure('text.pdf', 'This is no PDF.')
    expect(text).toMatchObject({ code: 'document_broken' })
    expect(text.message).toContain('text.pdf: it is no PDF')
  })

  test('that unpacks to more than there is memory for is refused before it is unpacked', async () => {
    const pdf = await PDFDocument.create()
    const content = deflateSync(Buffer.alloc(maxUnpackedBytes + 1, ' '), { level: 1 })
    const stream = pdf.context.stream(content, { Filter: 'FlateDecode' })
    pdf.addPage().node.set(PDFName.of('Contents'), pdf.context.register(stream))
    const bomb = await failure('bomb.pdf', await pdf.save({ useObjectStreams: false }))
    expect(bomb).toMatchObject({ code: 'document_broken', message: expect.stringContaining('256 MiB') })
  })

  test('that nobody waits for any more is given up', async () => {
    await writeFile(join(folder, 'long.pdf'), await makePdf(Array.from({ length: 500 }, () => 'mill')))
    const [source] = await findDocuments(join(folder, 'long.pdf'), never)
    const stop = new AbortController()
    const reading = source!.prepare!(stop.signal)
    stop.abort(new Error('enough'))
    await expect(reading).rejects.toThrow('enough')
  })
})

describe('a file whose extension says nothing', () => {
  test('is text, unless its first bytes say that it is something else', async () => {
    expect(await textOf(await written('notes', 'A mill.'))).toBe('A mill.')
    expect(await textOf(await written('paper.bin', await makePdf(['A mill.'])))).toBe('A mill.')
    expect(await textOf(await written('page.php', ' <!doctype HTML><p>A mill.'))).toBe('A mill.')
    expect(await failure('picture.png', Buffer.from('89504e470d0a1a0a0000000d', 'hex'))).toMatchObject({
      code: 'document_unsupported',
    })
  })

  test('is never guessed to be encoded', async () => {
    const encoded = Buffer.from('A mill is a machine.').toString('base64')
    expect(await textOf(await written('encoded', encoded))).toBe(encoded)
    expect(await textOf(await written('encoded.txt', encoded))).toBe(encoded)
  })
})

test('a folder gives its text, Markdown, HTML and PDF files', async () => {
  const inner = join(folder, 'library', 'inner')
  await mkdir(inner, { recursive: true })
  for (const name of ['b.PDF', 'a.txt', 'c.html', 'd.md', 'e.png']) await writeFile(join(inner, name), 'x')
  const found = await findDocuments(join(folder, 'library'), never)
  expect(found.map(({ title, mediaType }) => [title, mediaType])).toEqual([
    ['a.txt', 'text/plain'],
    ['b.PDF', 'application/pdf'],
    ['c.html', 'text/html'],
    ['d.md', 'text/markdown'],
  ])
})

test('the files of other endings in a folder are told, in it and its folders; those that a pattern leaves out are not', async () => {
  const mixed = join(folder, 'mixed')
  await mkdir(join(mixed, 'inner'), { recursive: true })
  for (const name of ['a.txt', 'README', 'notes.rst', 'inner/b.CSV']) await writeFile(join(mixed, name), 'x')
  await symlink('README', join(mixed, 'link'))
  await symlink('inner', join(mixed, 'link-to-folder'))
  const told: string[] = []
  const onPassedOver = (paths: readonly string[]) => told.push(...paths)
  expect(await findDocuments(mixed, never, { onPassedOver })).toHaveLength(1)
  expect(told.sort()).toEqual(['README', 'inner/b.CSV', 'link', 'notes.rst'].map((name) => join(mixed, name)))
  told.length = 0
  await findDocuments(join(mixed, '*.txt'), never, { onPassedOver })
  expect(told).toEqual([])
})

test('a pattern finds a file once, however many ways links lead to it', async () => {
  const shelf = join(folder, 'shelf')
  await mkdir(shelf)
  await writeFile(join(shelf, 'a.txt'), 'A mill.')
  await symlink('..', join(shelf, 'up'))
  const found = await findDocuments(join(folder, '**', 'a.txt'), never)
  expect(found.map(({ uri }) => uri).filter((uri) => uri.includes('shelf'))).toEqual([
    pathToFileURL(join(shelf, 'a.txt')).href,
  ])
})

test.skipIf(process.platform === 'win32')('a pipe is read once, and given as often as needed', async () => {
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const [[source]] = await Promise.all([findDocuments(pipe, never), writeFile(pipe, 'A mill grinds.')])
  expect([await textOf(source!), await textOf(source!)]).toEqual(['A mill grinds.', 'A mill grinds.'])
})

test('what holds no text is said by its path, which no other document shares', async () => {
  for (const [name, content] of [
    ['blank.txt', ' \n'],
    ['blank.html', '<p> </p>'],
    ['blank', ''],
  ] as const)
    expect(await failure(name, content)).toMatchObject({
      code: 'document_empty',
      message: `${join(folder, name)}: it holds no text.`,
    })
})

test('what is not UTF-8 is said with its place', async () => {
  const error = await failure('bad.txt', Buffer.from('Caf\u00e9. \xff', 'latin1'))
  expect(error).toMatchObject({ code: 'document_not_utf8', message: expect.stringMatching(/near byte 3\./) })
  const later = await failure('bad-later.txt', Buffer.concat([Buffer.from('Café. '), Buffer.from([0xff])]))
  expect(later.message).toMatch(/near byte 7\./)
})

// PDFs for tests: honest ones, ones that lie, and ones that unpack to far more than they are.
import { constants, deflateRawSync, deflateSync } from 'node:zlib'
import { PDFDocument, PDFName, PDFNumber, StandardFonts } from 'pdf-lib'

export interface MakeOptions {
  /** Whether pages and their tree are compressed, as most programs do since PDF 1.5. Default: nothing is but the texts. */
  readonly objectStreams?: boolean
  /** The number of pages that the file claims. Default: the true one. */
  readonly count?: number
}

/** A PDF of these pages; an empty text is a page without text. */
export async function makePdf(pages: readonly string[], options: MakeOptions = {}): Promise<Uint8Array> {
  const { objectStreams = false, count } = options
  const pdf = await PDFDocument.create()
  const font = await pdf.embedFont(StandardFonts.Helvetica)
  for (const text of pages) {
    const page = pdf.addPage([400, 400])
    if (text) page.drawText(text, { x: 40, y: 350, size: 12, lineHeight: 14, font })
  }
  if (count !== undefined) pdf.catalog.Pages().set(PDFName.of('Count'), PDFNumber.of(count))
  return pdf.save({ useObjectStreams: objectStreams, addDefaultPage: false })
}

/** The same file with other words in it. */
export function forge(pdf: Uint8Array, pattern: RegExp, replacement: string): Uint8Array {
  const text = Buffer.from(pdf).toString('latin1')
  const forged = text.replace(pattern, replacement)
  if (forged === text) throw new Error(`${pattern} is not in the PDF`)
  return Uint8Array.from(Buffer.from(forged, 'latin1'))
}

/** Asks for a password that nobody knows. */
export function encrypt(pdf: Uint8Array): Uint8Array {
  const key = (digits: string) => `<${digits.repeat(32)}>`
  const entry = `/Encrypt << /Filter /Standard /V 1 /R 2 /O ${key('11')} /U ${key('22')} /P -4 >> /ID [<00> <00>] /Size`
  return forge(pdf, /\/Size/, entry)
}

/** The file with an object written anew behind its end, as programs do that save changes only. */
export function update(pdf: Uint8Array, number: number, content: string): Uint8Array {
  const text = Buffer.from(pdf).toString('latin1')
  const [root] = /\/Root \d+ 0 R/.exec(text) ?? []
  const [, table] = /startxref\n(\d+)\n%%EOF\s*$/.exec(text) ?? []
  const object = `\n${number} 0 obj\n${content}\nendobj\n`
  const offset = String(text.length + 1).padStart(10, '0')
  const end = `xref\n${number} 1\n${offset} 00000 n \ntrailer\n<< /Size 100 ${root} /Prev ${table} >>\nstartxref\n${text.length + object.length}\n%%EOF\n`
  return Uint8Array.from(Buffer.from(text + object + end, 'latin1'))
}

/** A PDF of one page, whose content is these bytes with these words in the stream's dictionary. */
export function pdfOfStream(
  content: Uint8Array,
  { dictionary, lineEnd = '\n', more = '' }: { dictionary: string; lineEnd?: string; more?: string },
): Uint8Array {
  const objects = `%PDF-1.7
1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj
2 0 obj << /Type /Pages /Kids [3 0 R] /Count 1 >> endobj
3 0 obj << /Type /Page /Parent 2 0 R /MediaBox [0 0 400 400] /Contents 4 0 R /Resources << /Font << /F1 6 0 R >> >> >> endobj
6 0 obj << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> endobj
${more}
4 0 obj << ${dictionary} /Length ${content.length} >> stream${lineEnd}`
  const end = '\nendstream endobj\ntrailer << /Size 9 /Root 1 0 R >>\nstartxref\n0\n%%EOF\n'
  return Uint8Array.from(Buffer.concat([Buffer.from(objects, 'latin1'), content, Buffer.from(end)]))
}

/** zlib's form of so many MiB of blanks, made without having them. */
export function deflatedBlanks(mebibytes: number): Buffer {
  const blanks = Buffer.alloc(1024 * 1024, ' ')
  const block = deflateRawSync(blanks, { finishFlush: constants.Z_FULL_FLUSH })
  const last = Buffer.from([0x03, 0x00])
  return Buffer.concat([Buffer.from([0x78, 0x9c]), ...Array<Buffer>(mebibytes).fill(block), last])
}

/** PDFs whose page unpacks to `mebibytes`, each hidden from a look at the dictionaries in another way. */
export function pdfBombs(mebibytes: number): Readonly<Record<string, Uint8Array>> {
  const flat = deflatedBlanks(mebibytes)
  const twice = deflateSync(flat)
  const hex = Buffer.from(`${flat.toString('hex')}>`)
  return {
    'plain Flate': pdfOfStream(flat, { dictionary: '/Filter /FlateDecode' }),
    'double Flate': pdfOfStream(twice, { dictionary: '/Filter [/FlateDecode /FlateDecode]' }),
    'an indirect filter': pdfOfStream(flat, {
      dictionary: '/Filter 5 0 R',
      more: '5 0 obj /FlateDecode endobj',
    }),
    'ASCIIHex around Flate': pdfOfStream(hex, { dictionary: '/Filter [/ASCIIHexDecode /FlateDecode]' }),
    'the subtype of an image': pdfOfStream(flat, { dictionary: '/Subtype /Image /Filter /FlateDecode' }),
    'an odd line end': pdfOfStream(flat, { dictionary: '/Filter /FlateDecode', lineEnd: '\r' }),
  }
}

// PDFs for tests: honest ones, and ones that lie.
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

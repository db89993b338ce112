// PDFs for tests: honest ones, and ones that lie.
import { PDFDocument, StandardFonts } from 'pdf-lib'

/** A PDF of these pages; an empty text is a page without text. Nothing in it is compressed but the texts. */
export async function makePdf(pages: readonly string[]): Promise<Uint8Array> {
  const pdf = await PDFDocument.create()
  const font = await pdf.embedFont(StandardFonts.Helvetica)
  for (const text of pages) {
    const page = pdf.addPage([400, 400])
    if (text) page.drawText(text, { x: 40, y: 350, size: 12, lineHeight: 14, font })
  }
  return pdf.save({ useObjectStreams: false, addDefaultPage: false })
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

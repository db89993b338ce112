// A file of the operator that was read before, or that is known without a disk.

export interface InputFile {
  /** Its name in messages; the extension says its form. */
  readonly path: string
  readonly bytes: Uint8Array
}

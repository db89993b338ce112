// Ontology files for tests: the fixtures, and texts written to a folder of their own.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

/** The path of a fixture. */
export const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url))

/** A new folder, for who removes it. */
export const newFolder = () => mkdtempSync(join(tmpdir(), 'graphmill-ontology-'))

/** A new folder that goes with the test. */
export function folder(): string {
  const path = newFolder()
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** A file of that name and text. */
export function file(name: string, text: string, where = folder()): string {
  const path = join(where, name)
  writeFileSync(path, text)
  return path
}

/** Turtle with the usual prefixes, `e:` for the elements; it begins on line 5. */
export const turtle = (text: string) => `@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix e: <http://example.org/e#> .
${text}
`

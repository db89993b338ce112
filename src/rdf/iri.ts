// Names become IRIs here and nowhere else. Rule R1 (TrustGraph's, for every entity and predicate): hyphens for U+0020, lower case,
// then percent-encoded UTF-8 for everything but letters, digits and `_.-~/`. Names that still differ stay apart.

import { namespaces } from './vocabulary.ts'

/**
 * The IRI of an entity that a text calls `name`: exactly `base + quote(name.replace(" ", "-").lower())` of Python's urllib.
 * A lone surrogate counts as U+FFFD.
 *
 * @example entityIri('Alan Turing') // http://trustgraph.ai/e/alan-turing
 */
export function entityIri(name: string): string {
  return namespaces.e + quote(name.replaceAll(' ', '-').toLowerCase())
}

/** The IRI of a document: its id when that is an absolute IRI, otherwise `urn:graphmill:document:<id, quoted>`. */
export function documentIri(documentId: string): string {
  return isAbsolute(documentId) ? safeIri(documentId) : `urn:graphmill:document:${quote(documentId)}`
}

/** The IRI of a chunk: its id when that is an absolute IRI, otherwise `urn:graphmill:chunk:<id, quoted>`. */
export function chunkIri(chunkId: string): string {
  return isAbsolute(chunkId) ? safeIri(chunkId) : `urn:graphmill:chunk:${quote(chunkId)}`
}

/** The IRI of an ontology: its id when that is an absolute IRI, otherwise `urn:graphmill:ontology:<id, quoted>`. */
export function ontologyIri(id: string): string {
  return isAbsolute(id) ? safeIri(id) : `urn:graphmill:ontology:${quote(id)}`
}

/** Whether the text begins with a scheme. One letter is a drive, not a scheme, as in `C:\notes.txt`. */
export function isAbsolute(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9+.-]+:\S/.test(text)
}

/** Percent-encodes as Python's `urllib.parse.quote(text)`: everything but letters, digits and `_.-~/`. */
export function quote(text: string): string {
  return encodeURIComponent(text.toWellFormed())
    .replaceAll('%2F', '/')
    .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
}

// Illegal in an IRIREF; or outside RFC 3987 (C1 controls, noncharacters, direction marks, a `%` that encodes nothing);
// or white space, at which some loaders split lines.
const unsafe =
  /[\0-\x20<>"{}|^`\\\x7f-\x9f\s\p{Bidi_Control}\p{Noncharacter_Code_Point}]|%(?![0-9A-Fa-f]{2})/gu

// Letters, digits and the other ASCII that is always legal: most IRIs hold nothing else.
const plain = /^[!#$&-;=?-[\]_a-z~]*$/

/**
 * Makes a foreign IRI safe between `<` and `>` in any RDF syntax: illegal characters are percent-encoded, a lone surrogate becomes
 * U+FFFD. A legal IRI does not change, so applying it twice has no further effect.
 */
export function safeIri(iri: string): string {
  return plain.test(iri) ? iri : iri.toWellFormed().replace(unsafe, encodeURIComponent)
}

// Names become IRIs here, and nowhere else. Rule R1 (TrustGraph's, for every entity and predicate): hyphens for U+0020,
// lower case, then percent-encoded UTF-8 of all but letters, digits and `_.-~/`. Names that differ after that keep apart.

import { namespaces } from './vocabulary.ts'

/**
 * The IRI of what a text calls `name`: exactly `base + quote(name.replace(" ", "-").lower())` of Python's urllib.
 * A lone surrogate counts as U+FFFD.
 *
 * @example entityIri('Alan Turing') // http://trustgraph.ai/e/alan-turing
 */
export function entityIri(name: string): string {
  return namespaces.e + quote(name.replaceAll(' ', '-').toLowerCase())
}

/** The IRI of a document: its id where that is an absolute IRI, else `urn:graphmill:document:<id, quoted>`. */
export function documentIri(documentId: string): string {
  return isAbsolute(documentId) ? safeIri(documentId) : `urn:graphmill:document:${quote(documentId)}`
}

/** The IRI of a chunk: its id where that is an absolute IRI, else `urn:graphmill:chunk:<id, quoted>`. */
export function chunkIri(chunkId: string): string {
  return isAbsolute(chunkId) ? safeIri(chunkId) : `urn:graphmill:chunk:${quote(chunkId)}`
}

/** The IRI of an ontology: its id where that is an absolute IRI, else `urn:graphmill:ontology:<id, quoted>`. */
export function ontologyIri(id: string): string {
  return isAbsolute(id) ? safeIri(id) : `urn:graphmill:ontology:${quote(id)}`
}

/** Whether the text begins with a scheme. One letter is no scheme but a drive, as in `C:\notes.txt`. */
export function isAbsolute(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9+.-]+:\S/.test(text)
}

/** Percent-encodes as Python's `urllib.parse.quote(text)` does: all but letters, digits and `_.-~/`. */
export function quote(text: string): string {
  return encodeURIComponent(text.toWellFormed())
    .replaceAll('%2F', '/')
    .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
}

// Illegal in an IRIREF; or outside RFC 3987 (C1 controls, noncharacters, direction marks, a `%` that encodes nothing);
// or white space, at which some loaders split lines.
const unsafe =
  /[\0-\x20<>"{}|^`\\\x7f-\x9f\s\p{Bidi_Control}\p{Noncharacter_Code_Point}]|%(?![0-9A-Fa-f]{2})/gu

// Letters, digits and the rest of ASCII that is legal as it stands: most IRIs hold nothing else.
const plain = /^[!#$&-;=?-[\]_a-z~]*$/

/**
 * An IRI from outside, made fit to stand between `<` and `>` in any RDF syntax: what is illegal there is percent-encoded,
 * a lone surrogate is U+FFFD; a legal IRI stays as it is, so applying it twice changes nothing more.
 */
export function safeIri(iri: string): string {
  return plain.test(iri) ? iri : iri.toWellFormed().replace(unsafe, encodeURIComponent)
}

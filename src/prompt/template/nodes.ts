// The text of a template as nunjucks reads it, with numbers after a dot read as indexes.

import nunjucks from 'nunjucks'
import { TemplateFault } from './tree.ts'

/** A node of nunjucks, whose types do not include nodes and tokens. */
export interface RawNode {
  readonly typename: string
  readonly lineno: number
  readonly colno: number
  readonly [field: string]: unknown
}
interface Token {
  readonly type: string
  readonly value: string
  readonly lineno: number
  readonly colno: number
}
interface TokenSource {
  nextToken(): Token | null
}
const { lexer, parser } = nunjucks as unknown as {
  readonly lexer: { lex(source: string): TokenSource }
  readonly parser: { readonly Parser: new (tokens: TokenSource) => { parseAsRoot(): RawNode } }
}

/** The root of the template. Throws TemplateFault when it is not well formed. */
export function readNodes(source: string): RawNode {
  const tokens = dottedIndexes(lexer.lex(source))
  let lastTagLine = 0
  const next = tokens.nextToken
  tokens.nextToken = () => {
    const token = next()
    if (token?.type === 'block-start' || token?.type === 'variable-start') lastTagLine = token.lineno + 1
    return token
  }
  try {
    return new parser.Parser(tokens).parseAsRoot()
  } catch (error) {
    if (error instanceof RangeError) throw error
    const { message, lineno } = error as Error & { lineno?: number }
    // At the end of the text, nunjucks reads the type of a missing token.
    const what = error instanceof TypeError ? 'unexpected end of file' : message.replace(/^parse\w+: /, '')
    throw new TemplateFault(what, lineno ?? lastTagLine, { cause: error })
  }
}

/**
 * The tokens with `x.0` written as `x[0]`, and `x.0.1`, whose `0.1` nunjucks reads as a decimal number, as `x[0][1]`.
 * The parser reads a raw block from the source itself, so that text is not changed.
 */
function dottedIndexes(tokens: TokenSource): TokenSource {
  const next = tokens.nextToken.bind(tokens)
  const pending: (Token | null)[] = []
  let previous: Token | null = null
  tokens.nextToken = () => {
    const token = pending.length > 0 ? (pending.shift() as Token | null) : next()
    const isDot = token?.type === 'operator' && token.value === '.'
    if (isDot && pending.length === 0 && endsOperand(previous)) {
      const index = next()
      if (index?.type === 'int' || index?.type === 'float') {
        pending.push(...indexTokens(index, token))
        previous = pending.shift() as Token
        return previous
      }
      pending.push(index)
    }
    previous = token
    return token
  }
  return tokens
}

function endsOperand(token: Token | null): boolean {
  return token !== null && ['symbol', 'right-bracket', 'right-paren'].includes(token.type)
}

function indexTokens(number: Token, dot: Token): Token[] {
  return number.value.split('.').flatMap((digits) =>
    digits === ''
      ? [dot]
      : [
          { ...number, type: 'left-bracket', value: '[' },
          { ...number, type: 'int', value: digits },
          { ...number, type: 'right-bracket', value: ']' },
        ],
  )
}

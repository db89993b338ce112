// A template as a checked tree: what `syntax.ts` makes and `evaluate.ts` renders.

/** What is wrong with a template, or with the terms given to it. */
export class TemplateFault extends Error {
  /** 1-based line of the template, 0 when it is not known. */
  readonly line: number
  /** The term or member that is the cause. */
  readonly term: string | undefined

  constructor(message: string, line: number, options: { term?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'TemplateFault'
    this.line = line
    this.term = options.term
  }
}

export type BinaryOperator = 'and' | 'or' | 'in' | Arithmetic | Comparison
export type Arithmetic = '~' | '+' | '-' | '*' | '/' | '//' | '%' | '**'
export type Comparison = '==' | '!=' | '<' | '>' | '<=' | '>='

export type Expression = { readonly line: number } & (
  | { readonly kind: 'literal'; readonly value: string | number | boolean | null }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'member'; readonly target: Expression; readonly key: Expression }
  /** `range(…)`, or a method of the object `target`. */
  | {
      readonly kind: 'call'
      readonly target: Expression | undefined
      readonly method: string
      readonly args: readonly Expression[]
    }
  | { readonly kind: 'filter'; readonly name: string; readonly args: readonly Expression[] }
  | { readonly kind: 'test'; readonly name: string; readonly args: readonly Expression[] }
  | {
      readonly kind: 'binary'
      readonly operator: BinaryOperator
      readonly left: Expression
      readonly right: Expression
    }
  | { readonly kind: 'unary'; readonly operator: 'not' | '-' | '+'; readonly operand: Expression }
  | {
      readonly kind: 'choice'
      readonly condition: Expression
      readonly yes: Expression
      readonly no: Expression | undefined
    }
  | { readonly kind: 'list'; readonly items: readonly Expression[] }
  | { readonly kind: 'object'; readonly entries: readonly (readonly [string, Expression])[] }
  /** A block whose text is a value: `{% set x %}…{% endset %}`, `{% filter f %}…{% endfilter %}`. */
  | { readonly kind: 'capture'; readonly body: readonly Statement[] }
)

export type Statement = { readonly line: number } & (
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'output'; readonly value: Expression }
  | {
      readonly kind: 'if'
      readonly condition: Expression
      readonly body: readonly Statement[]
      readonly otherwise: readonly Statement[]
    }
  | {
      readonly kind: 'for'
      readonly names: readonly string[]
      readonly list: Expression
      readonly body: readonly Statement[]
      readonly otherwise: readonly Statement[]
    }
  | { readonly kind: 'set'; readonly names: readonly string[]; readonly value: Expression }
)

/** Names that lead out of a term's own data; refused as a name, a member and an index. */
export const forbiddenNames: ReadonlySet<string> = new Set(['constructor', 'prototype', '__proto__'])

/** The methods that objects have in a template. */
export const objectMethods: ReadonlySet<string> = new Set(['items', 'keys', 'values'])

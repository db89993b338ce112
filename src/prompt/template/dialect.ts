// The dialects in which a template may be written; see `template.ts`.
export const dialects = ['graphmill', 'trustgraph'] as const
export type Dialect = (typeof dialects)[number]

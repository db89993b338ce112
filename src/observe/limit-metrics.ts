// Metrics of the limits that this process shares with other replicas.
import type { Instruments } from './instruments.ts'

/** What is shared of a model: by a workspace, or by all if it is empty. */
export interface LimitState {
  readonly workspace: string
  readonly model: string
  /** What this replica may use of the limits, from 0 to 1. */
  readonly share: number
  readonly isExhausted: boolean
  readonly budget:
    | { readonly amount: number; readonly used: number; readonly unit: string; readonly period: string }
    | undefined
}

/** The returned function sets their source. */
export function showLimits({ collectedGauge }: Instruments): (states: () => readonly LimitState[]) => void {
  let current: () => readonly LimitState[] = () => []
  const ofModel = ['workspace', 'model'] as const
  collectedGauge(
    'graphmill_limit_share',
    'The share of the limits of a model that this replica may use now',
    ofModel,
    (gauge) => {
      for (const { workspace, model, share } of current()) gauge.set({ workspace, model }, share)
    },
  )
  const showBudget = (name: string, help: string, field: 'used' | 'amount') =>
    collectedGauge(name, help, [...ofModel, 'period', 'unit'], (gauge) => {
      for (const { workspace, model, budget } of current())
        if (budget) gauge.set({ workspace, model, period: budget.period, unit: budget.unit }, budget[field])
    })
  showBudget(
    'graphmill_budget_used',
    'What all replicas have spent or reserved of a budget in this period',
    'used',
  )
  showBudget('graphmill_budget_limit', 'The budget of a period', 'amount')
  return (states) => {
    current = states
  }
}

// The drawing of the graph: everything while it is small, otherwise what is chosen with its neighbours. Relationships are its edges.
import { DirectedGraph } from 'graphology'
import forceAtlas2 from 'graphology-layout-forceatlas2'
import Sigma from 'sigma'
import type { PageData, PageFact } from './data.ts'

/** More entities than this are not drawn at once. */
const mostDrawn = 300

export interface DrawingOptions {
  readonly choose: (entity: number) => void
  readonly isShown: (fact: PageFact) => boolean
}

export function createDrawing(container: HTMLElement, data: PageData, { choose, isShown }: DrawingOptions) {
  const { entities, predicates, facts } = data
  const relations = facts.filter(([, , object]) => typeof object === 'number')
  const graph = new DirectedGraph()
  const sigma = openSigma(container, graph)
  sigma?.on('enterNode', () => {
    container.style.cursor = 'pointer'
  })
  sigma?.on('leaveNode', () => {
    container.style.cursor = ''
  })
  sigma?.on('clickNode', ({ node }) => choose(Number(node)))
  let drawn = ''

  /** The entities to draw: all, or the chosen one with its neighbours, or those with the most relationships. */
  function pick(shown: readonly PageFact[], chosen: number | undefined): Set<number> {
    if (entities.length <= mostDrawn) return new Set(entities.keys())
    const around = chosen ?? busiest(shown)
    const picked = new Set(around === undefined ? [] : [around])
    for (const [subject, , object] of shown) {
      if (picked.size >= mostDrawn) break
      if (subject === around) picked.add(object as number)
      if (object === around) picked.add(subject)
    }
    return picked
  }

  function busiest(shown: readonly PageFact[]): number | undefined {
    const counts = new Map<number, number>()
    for (const [subject, , object] of shown)
      for (const entity of [subject, object as number]) counts.set(entity, (counts.get(entity) ?? 0) + 1)
    return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0]
  }

  function draw(picked: ReadonlySet<number>, shown: readonly PageFact[]): void {
    graph.clear()
    let at = 0
    for (const entity of picked) {
      const angle = (2 * Math.PI * at++) / picked.size
      graph.addNode(entity, {
        label: entities[entity]![0],
        x: Math.cos(angle),
        y: Math.sin(angle),
        color: '#0b6bcb',
      })
    }
    for (const [subject, predicate, object] of shown) {
      if (!picked.has(subject) || !picked.has(object as number)) continue
      if (!graph.hasEdge(subject, object))
        graph.addEdge(subject, object, {
          label: predicates[predicate]!,
          size: 2,
          color: '#bbb',
          type: 'arrow',
        })
    }
    graph.forEachNode((node) => graph.setNodeAttribute(node, 'size', 4 + 2 * Math.sqrt(graph.degree(node))))
    if (graph.order > 1)
      forceAtlas2.assign(graph, {
        iterations: 200,
        settings: { ...forceAtlas2.inferSettings(graph), gravity: 1 },
      })
  }

  return {
    /** Draws what belongs to the chosen entity. Returns a sentence about what is drawn. */
    show(chosen: number | undefined): string {
      if (!sigma) return 'This browser draws nothing (no WebGL). The table has all facts.'
      const shown = relations.filter(isShown)
      const picked = pick(shown, chosen)
      const wanted = [...picked].join() + shown.length
      if (wanted !== drawn) draw(picked, shown)
      drawn = wanted
      graph.forEachNode((node) =>
        graph.mergeNodeAttributes(node, {
          color: Number(node) === chosen ? '#c2410c' : '#0b6bcb',
          forceLabel: Number(node) === chosen,
        }),
      )
      sigma.refresh()
      return graph.order < entities.length
        ? `${graph.order} of ${entities.length} entities are drawn: find another to see its neighbours.`
        : ''
    },
  }
}

function openSigma(container: HTMLElement, graph: DirectedGraph): Sigma | undefined {
  try {
    return new Sigma(graph, container, {
      renderEdgeLabels: true,
      labelRenderedSizeThreshold: 0,
      allowInvalidContainer: true,
    })
  } catch {
    return undefined
  }
}

// A process with a cache of replies forgets those of erased documents: it follows the flow's retractions. So a process that was stopped
// meanwhile does so when it starts again.
import type { ReplyCache } from '../llm/cache/reply-cache.ts'
import type { FlowTopics } from './ports.ts'
import { followTopic, type TopicFollowerOptions } from './topic-follower.ts'

/** Ends when the signal aborts. */
export function forgetErasedReplies(
  replies: Pick<ReplyCache, 'forget'>,
  flow: FlowTopics,
  options: TopicFollowerOptions,
  signal: AbortSignal,
): Promise<void> {
  const warning = 'replies of erased documents are still in the cache'
  const { workspace } = flow
  const take: Parameters<typeof followTopic<'retractions'>>[0]['take'] = async (message) => {
    const { documentId, versionTime, payload } = message
    if (payload.reason === 'erased') await replies.forget({ workspace, documentId, versionTime })
  }
  return followTopic({ port: 'retractions', flow, take, warning }, options, signal)
}

// What each named invariant of a fixture means here. One that restates a literal comparison requires that the fixture has it.
import { expect } from 'vitest'
import { textOf } from '../../../src/complete/provider.ts'
import type { Expected } from './fixture.ts'
import type { Run } from './runner.ts'

type Check = (run: Run) => void | Promise<void>

/** The fixture itself states it, under this name. */
const stated =
  (...names: (keyof Expected)[]): Check =>
  ({ step: { expected } }) => {
    for (const name of names) expect(expected[name], `the fixture states no ${name}`).toBeTruthy()
  }

const sent =
  (count: number): Check =>
  ({ requests }) =>
    expect(requests).toHaveLength(count)

const unsent: Check = async (run) => {
  await stated('raises')(run)
  await sent(0)(run)
}

const spanPerRequest: Check = ({ spans, requests }) => expect(spans).toHaveLength(requests.length)

const rawUsage: Check = ({ response, answered }) => {
  const counts = answered.flatMap((body) => (body['usage'] === undefined ? [] : [body['usage']]))
  expect(counts).not.toHaveLength(0)
  expect(response?.raw['usage']).toStrictEqual(counts.at(-1))
}

/** The same call without a stream, answered with the assembled body, gives the same response. */
const sameAsWhole: Check = async ({ response, whole }) => {
  const { message, finishReason, usage, parsed } = response!
  expect(await whole()).toMatchObject({ message, finishReason, usage, parsed })
}

const joinedDeltas: Check = ({ response, tokens }) => {
  const deltas = tokens.filter(({ deltaKind }) => deltaKind === 'content').map(({ delta }) => delta)
  expect(deltas.length).toBeGreaterThan(1)
  expect(deltas.join('')).toBe(textOf(response!.message))
}

const streamedFields: Check = ({ requests }) =>
  expect(requests[0]!.json).toMatchObject({ stream: true, stream_options: { include_usage: true } })

/** Inputs are frozen at every depth and compared in every run. */
const unchanged: Check = ({ before, step: { request } }) => expect(request).toStrictEqual(before)

const noTokens: Check = ({ tokens }) => expect(tokens).toHaveLength(0)
const noWait: Check = ({ waits }) => expect(waits).toBe(0)
const wire = stated('wire')
const raised = stated('raises')
const answered = stated('response')
const attempts = stated('attempts')
const spans = stated('spans')

const checks: Readonly<Record<string, Check>> = {
  // attempts
  call_returns_successful_response_after_transient_retry: answered,
  n_attempts_emit_n_llm_spans: spanPerRequest,
  attempt_index_attribute_distinct_per_span: spans,
  exhaustion_propagates_final_error: raised,
  every_attempt_span_carries_error_category: spans,
  non_transient_exits_retry_loop_on_first_occurrence: sent(1),
  exactly_one_attempt_span_for_non_transient: spanPerRequest,
  no_backoff_sleep_invoked: noWait,
  base_attempt_uses_caller_config: attempts,
  per_attempt_override_applies_to_retries_only: attempts,
  caller_config_unmutated: unchanged,
  caller_messages_unmutated: unchanged,
  reask_makes_structured_output_invalid_retryable: attempts,
  appended_assistant_message_is_exactly_model_output: attempts,
  appended_user_correction_is_exactly_builder_output: attempts,
  reask_exhausts_max_attempts_budget: attempts,
  final_structured_output_invalid_propagates: raised,
  structured_output_invalid_not_retried_without_reask: sent(1),
  exactly_one_attempt_issued: sent(1),
  second_mock_response_never_consumed: sent(1),
  override_and_reask_compose_on_reask_retries: attempts,
  reask_transcript_accumulates_across_retries: attempts,
  transient_retry_carries_accumulated_reask_transcript: attempts,
  retry_reason_discriminates_reask_vs_transient_in_one_loop: spans,
  // streams
  streamed_request_sends_stream_true_and_include_usage: streamedFields,
  assembled_content_is_ordered_concatenation_of_deltas: joinedDeltas,
  usage_and_finish_reason_sourced_from_terminal_chunks: answered,
  assembled_response_equals_non_streamed_equivalent: sameAsWhole,
  streamed_tool_call_arguments_reassemble_and_parse: answered,
  reassembled_tool_calls_equal_non_streamed_equivalent: sameAsWhole,
  finish_reason_tool_calls_sourced_from_terminal_content_chunk: answered,
  reasoning_delta_assembles_into_thinking_block: answered,
  content_delta_assembles_into_text_block: answered,
  streamed_reasoning_response_shape_identical_to_non_streamed: sameAsWhole,
  stream_unsupported_mapping_rejects_pre_send: unsent,
  rejection_category_is_provider_invalid_request: raised,
  no_silent_atomic_fallback: unsent,
  no_token_events_on_rejected_stream: noTokens,
  atomic_call_unaffected_by_streaming_rejection: answered,
  // counts
  raw_usage_prompt_tokens_verbatim_malformed: rawUsage,
  raw_usage_all_counters_verbatim_malformed: rawUsage,
  raw_usage_input_tokens_verbatim_malformed: rawUsage,
  terminal_chunk_usage_preserved_verbatim_on_raw: rawUsage,
  malformed_terminal_counter_nulled_on_normalized_usage: answered,
  // managed fields
  no_request_issued: unsent,
  conditionally_managed_response_format_conflict_rejected_pre_send: unsent,
  extras_response_format_neither_dropped_nor_forwarded: unsent,
  no_schema_response_format_unmanaged_rides_untouched: wire,
  extras_response_format_on_wire_when_unmanaged: wire,
  conditionally_managed_stream_options_conflict_rejected_pre_send: unsent,
  stream_options_neither_dropped_nor_forwarded: unsent,
  non_streaming_stream_options_unmanaged_rides_untouched: wire,
  managed_structural_model_conflict_rejected_pre_send: unsent,
  bound_model_not_silently_overridden: unsent,
  extras_model_neither_dropped_nor_forwarded: unsent,
  declared_scalar_temperature_conflict_rejected_pre_send: unsent,
  declared_temperature_not_silently_overridden: unsent,
  extras_temperature_neither_dropped_nor_forwarded: unsent,
  matching_extras_temperature_no_op: wire,
  wire_temperature_is_declared_value_once: wire,
  wire_stop_is_merged_union: wire,
  declared_stop_first_in_merge_order: wire,
  matching_stop_collapses_to_single_element: wire,
  scalar_string_extras_stop_coerced_to_list: wire,
  streaming_call_conflicting_stream_rejected_pre_send: unsent,
  stream_neither_dropped_nor_forwarded: unsent,
  unary_call_conflicting_stream_rejected_pre_send: unsent,
  stream_always_managed_on_unary_side: unsent,
  matching_extras_stream_no_op: wire,
  wire_carries_no_stream_key: ({ requests }) => expect(requests[0]!.json).not.toHaveProperty('stream'),
  atomic_mapping_extras_stream_conflict_rejected_pre_send: unsent,
  extras_stream_not_smuggled_to_wire: unsent,
  matching_extras_stream_false_no_op: wire,
  wire_stop_sequences_is_merged_union: wire,
  declared_first_in_merge_order: wire,
  no_scalar_string_coercion_on_anthropic: wire,
  matching_stop_sequences_collapses_to_single_element: wire,
  wire_stopSequences_merged_under_generationConfig: wire,
  matching_stopSequences_collapses_to_single_element: wire,
  malformed_extras_stop_treated_as_absent: wire,
  wire_stop_is_declared_value_only: wire,
  malformed_list_not_salvaged: wire,
  no_error_raised_on_malformed_extras: answered,
}

/** Throws when an invariant does not hold, or is not known. */
export async function checkInvariants(run: Run): Promise<void> {
  for (const name of run.step.expected.invariants) {
    const check = checks[name]
    if (!check) throw new Error(`This runner does not know the invariant ${name}.`)
    await check(run)
  }
}

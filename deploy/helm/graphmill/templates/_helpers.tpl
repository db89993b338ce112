{{- define "graphmill.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- end }}

{{- define "graphmill.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The pods of one entry. Call with (dict "root" $ "entry" name). */}}
{{- define "graphmill.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .entry }}
{{- end }}

{{- define "graphmill.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "graphmill.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "graphmill.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* The enabled entries with the defaults, as JSON: fromJson reads it. */}}
{{- define "graphmill.entries" -}}
{{- $entries := dict }}
{{- range $name, $own := .Values.processors }}
{{- $entry := mergeOverwrite (deepCopy $.Values.processorDefaults) (default dict $own) }}
{{- if not $entry.run }}{{ $_ := set $entry "run" (list $name) }}{{ end }}
{{- if $entry.enabled }}{{ $_ := set $entries $name $entry }}{{ end }}
{{- end }}
{{- toJson $entries }}
{{- end }}

{{/* Whether an entry writes files, as "true" or "". Call with (dict "root" $ "entry" $entry). */}}
{{- define "graphmill.writesFiles" -}}
{{- $store := or .entry.options.store .root.Values.options.store }}
{{- if has "store-rows" .entry.run }}true
{{- else if and (or (has "store-triples" .entry.run) (has "--all" .entry.run)) (not $store) }}true{{ end }}
{{- end }}

{{/* The kinds of files that are given, as JSON: name -> ConfigMap. */}}
{{- define "graphmill.files" -}}
{{- $files := dict }}
{{- range $name, $each := .Values.files }}
{{- if $each.existing }}{{ $_ := set $files $name $each.existing }}
{{- else if $each.content }}{{ $_ := set $files $name (printf "%s-%s" (include "graphmill.fullname" $) $name) }}{{ end }}
{{- end }}
{{- toJson $files }}
{{- end }}

{{/* graphmill.yaml of an entry. Call with (dict "root" $ "entry" $entry). */}}
{{- define "graphmill.config" -}}
{{- /* A blocked process is ended by the liveness probe. The thread of the watchdog would take 13 MiB. */}}
{{- $config := dict "flows" "/etc/graphmill/flows/flows.yaml" "http" "0.0.0.0:8000" "watchdog" 0 }}
{{- range $name, $_ := include "graphmill.files" .root | fromJson }}
{{- $_ := set $config $name (list (printf "/etc/graphmill/%s" $name)) }}
{{- end }}
{{- if .entry.cache }}{{ $_ := set $config "cache-dir" "/cache" }}{{ end }}
{{- if include "graphmill.writesFiles" . }}{{ $_ := set $config "out" "/data/triples" }}{{ end }}
{{- if has "store-rows" .entry.run }}{{ $_ := set $config "rows" "/data/rows" }}{{ end }}
{{- range $name, $value := mergeOverwrite (deepCopy .root.Values.options) .entry.options }}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $config $name $value }}{{ end }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* What each processor reads, as YAML: the roles of its topics. */}}
{{- define "graphmill.inputs" -}}
chunk-text: [document]
prompt: [prompt, prompt-live]
text-completion: [text-completion]
extract-definitions: [chunk, prompt-reply]
extract-relationships: [chunk, prompt-reply]
extract-topics: [chunk, prompt-reply]
extract-rows: [chunk, prompt-reply]
extract-agent-kg: [chunk, prompt-reply]
extract-ontology: [chunk, prompt-reply]
emit-triples: [definitions, relationships, topics, ontology-entities, ontology-relationships, ontology-attributes]
store-triples: [triples, retractions]
store-rows: [rows]
ledger: [progress]
{{- end }}

{{/* The partitions of a role. Call with (dict "role" role "flow" flow). */}}
{{- define "graphmill.partitions" -}}
{{- $own := dig "topics" .role "partitions" 0 .flow }}
{{- if $own }}{{ $own }}{{ else if has .role (list "chunk" "prompt" "prompt-live" "prompt-reply") }}12{{ else }}3{{ end }}
{{- end }}

{{/* Whether a flow has work for a processor, as "true" or "". Call with (dict "root" $ "flow" flow "processor" name). */}}
{{- define "graphmill.serves" -}}
{{- $extractor := eq .processor "store-rows" | ternary "rows" (trimPrefix "extract-" .processor) }}
{{- if not (or (hasPrefix "extract-" .processor) (eq .processor "store-rows")) }}true
{{- else }}
{{- $files := include "graphmill.files" .root | fromJson }}
{{- $usual := list "definitions" "relationships" "topics" }}
{{- if or .flow.schemas $files.schemas .root.Values.options.schemas }}{{ $usual = append $usual "rows" }}{{ end }}
{{- if or .flow.ontologies $files.ontologies .root.Values.options.ontologies }}{{ $usual = append $usual "ontology" }}{{ end }}
{{- if has $extractor (default (default $usual .root.Values.options.extractors) .flow.extractors) }}true{{ end }}
{{- end }}
{{- end }}

{{/*
What an entry reads, as JSON: the triggers of KEDA, none where no flow has work for it, and the number of partitions.
Call with (dict "root" $ "entry" $entry).
*/}}
{{- define "graphmill.backlog" -}}
{{- $inputs := include "graphmill.inputs" .root | fromYaml }}
{{- $processors := .entry.run }}
{{- if has "--all" .entry.run }}
{{- $processors = keys $inputs | sortAlpha }}
{{- if not (or .entry.options.rows .root.Values.options.rows) }}{{ $processors = without $processors "store-rows" }}{{ end }}
{{- end }}
{{- $triggers := list }}
{{- $partitions := 0 }}
{{- range $flow := .root.Values.flows }}
{{- $most := 0 }}
{{- range $processor := $processors }}
{{- if include "graphmill.serves" (dict "root" $.root "flow" $flow "processor" $processor) }}
{{- range $role := get $inputs $processor }}
{{- $most = max $most (include "graphmill.partitions" (dict "role" $role "flow" $flow) | int) }}
{{- $trigger := include "graphmill.trigger" (dict "root" $.root "entry" $.entry "flow" $flow "processor" $processor "role" $role) | fromYaml }}
{{- $triggers = append $triggers (set $trigger "name" (printf "lag%d" (len $triggers))) }}
{{- end }}
{{- end }}
{{- end }}
{{- $partitions = add $partitions $most }}
{{- end }}
{{- toJson (dict "triggers" $triggers "partitions" $partitions) }}
{{- end }}

{{/* A trigger of KEDA for what waits at an input. Call with (dict "root" $ "entry" entry "flow" flow "processor" name "role" role). */}}
{{- define "graphmill.trigger" -}}
{{- $space := default "gm" .root.Values.options.space }}
{{- $names := printf "%s.%s" (default "default" .flow.workspace) (default "default" .flow.flow) }}
{{- $groupRole := .role }}
{{- $topic := printf "%s.%s.%s.%s" $space (eq .role "retractions" | ternary "notify" "flow") .role $names }}
{{- if eq .role "prompt-reply" }}
{{- $groupRole = "prompt" }}
{{- $topic = printf "%s.response.prompt.%s.%s" $space .processor $names }}
{{- else if has .role (list "prompt" "prompt-live" "text-completion") }}
{{- $topic = printf "%s.request.%s.%s" $space .role $names }}
{{- end }}
{{- $group := printf "%s.%s.%s.%s" $space .processor $groupRole $names }}
{{- $broker := .root.Values.options.broker }}
{{- $threshold := toString .entry.autoscaling.lagThreshold }}
{{- $activation := toString .entry.autoscaling.activationLagThreshold }}
{{- $trigger := dict }}
{{- if hasPrefix "kafka://" $broker }}
{{- $metadata := dict "bootstrapServers" (trimPrefix "kafka://" $broker) "consumerGroup" $group "topic" $topic }}
{{- $_ := set $metadata "lagThreshold" $threshold }}
{{- $_ := set $metadata "activationLagThreshold" $activation }}
{{- $_ := set $metadata "offsetResetPolicy" "earliest" }}
{{- $trigger = dict "type" "kafka" "metadata" $metadata }}
{{- else }}
{{- $url := urlParse $broker }}
{{- $host := $url.host }}
{{- $secure := or (contains "+ssl" $url.scheme) (contains "+wss" $url.scheme) }}
{{- $admin := printf "%s://%s" (ternary "https" "http" $secure) $host }}
{{- if not (contains "+ws" $url.scheme) }}
{{- $admin = default (printf "%s://%s:%s" (ternary "https" "http" $secure) (first (splitList ":" $host)) (ternary "8443" "8080" $secure)) (get .root.Values.options "pulsar-admin") }}
{{- end }}
{{- $space := default "public/default" (trimAll "/" $url.path) }}
{{- $metadata := dict "adminURL" $admin "topic" (printf "persistent://%s/%s" $space $topic) "subscription" $group }}
{{- $_ := set $metadata "isPartitionedTopic" "true" }}
{{- $_ := set $metadata "msgBacklogThreshold" $threshold }}
{{- $_ := set $metadata "activationMsgBacklogThreshold" $activation }}
{{- $trigger = dict "type" "pulsar" "metadata" $metadata }}
{{- end }}
{{- $_ := set $trigger "metadata" (merge (deepCopy .root.Values.autoscaling.metadata) $trigger.metadata) }}
{{- with .root.Values.autoscaling.authentication }}{{ $_ := set $trigger "authenticationRef" (dict "name" .) }}{{ end }}
{{- toYaml $trigger }}
{{- end }}

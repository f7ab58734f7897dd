{{/*
What the values come to, as YAML: which plugins are on, the gates, the watched namespaces, the permissions, and the configuration
file. Facts about plugins are in files/operator.yaml, which is made from what they say of themselves.
*/}}
{{- define "kuberay-operator.plan" -}}
{{- $values := .Values -}}
{{- $facts := .Files.Get "files/operator.yaml" | fromYaml -}}

{{- /* Gates in the order of the list; of two values for one gate the later counts. */ -}}
{{- $names := list -}}
{{- $gates := dict -}}
{{- range $values.featureGates -}}
  {{- $names = append (without $names .name) .name -}}
  {{- $_ := set $gates .name .enabled -}}
{{- end -}}

{{- /* Plugins: switched on, named as the batch scheduler, or behind a gate that is on. */ -}}
{{- $scheduler := $values.batchScheduler.name | default (ternary "volcano" "" $values.batchScheduler.enabled) -}}
{{- $plugins := list -}}
{{- $sections := dict -}}
{{- $rules := $facts.core -}}
{{- if $values.useKubernetesProxy -}}
  {{- $rules = concat $rules $facts.proxy -}}
{{- end -}}
{{- $needs := dict -}}
{{- range $name, $fact := $facts.plugins -}}
  {{- $own := get $values.plugins $name | default dict -}}
  {{- $on := or $own.enabled (eq $name $scheduler) (and (eq $name "volcano") $values.batchScheduler.enabled) -}}
  {{- $gated := false -}}
  {{- if $fact.gate -}}
    {{- $gated = ternary (get $gates $fact.gate) (get $gates "AllAlpha") (hasKey $gates $fact.gate) -}}
  {{- end -}}
  {{- if or $on $gated -}}
    {{- $plugins = append $plugins $name -}}
    {{- $rules = concat $rules $fact.rules -}}
    {{- with $fact.needs -}}{{- $_ := set $needs $name . -}}{{- end -}}
    {{- with omit $own "enabled" -}}{{- $_ := set $sections $name . -}}{{- end -}}
    {{- if and $fact.gate (not $gated) -}}
      {{- $names = append (without $names $fact.gate) $fact.gate -}}
      {{- $_ := set $gates $fact.gate true -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $requirements := list -}}
{{- range $extra := $values.plugins.extra -}}
  {{- if hasKey $facts.plugins $extra.name -}}
    {{- fail (printf "plugins.extra: %s is a plugin of the operator's own; use plugins.%s instead" $extra.name $extra.name) -}}
  {{- else if has $extra.name $plugins -}}
    {{- fail (printf "plugins.extra: %s is there twice" $extra.name) -}}
  {{- else if dig "enabled" true $extra -}}
    {{- $plugins = append $plugins $extra.name -}}
    {{- $rules = concat $rules ($extra.rules | default list) -}}
    {{- $requirements = concat $requirements ($extra.requirements | default list) -}}
    {{- with $extra.settings -}}{{- $_ := set $sections $extra.name . -}}{{- end -}}
  {{- end -}}
{{- end -}}

{{- /* Namespaces. */ -}}
{{- $namespaces := list -}}
{{- if kindIs "string" $values.watchNamespace -}}
  {{- range splitList "," $values.watchNamespace -}}
    {{- with trim . -}}{{- $namespaces = append $namespaces . -}}{{- end -}}
  {{- end -}}
{{- else -}}
  {{- $namespaces = $values.watchNamespace | default list | uniq -}}
{{- end -}}
{{- if and $values.singleNamespaceInstall (not $namespaces) -}}
  {{- $namespaces = list .Release.Namespace -}}
{{- end -}}

{{- /* Secrets: with everything else, or only in some of the namespaces. */ -}}
{{- $everywhere := true -}}
{{- $secretNamespaces := list -}}
{{- $secretRules := list -}}
{{- if hasKey $values.configuration "secretNamespaces" -}}
  {{- range splitList "," $values.configuration.secretNamespaces -}}
    {{- with trim . -}}{{- $secretNamespaces = append $secretNamespaces . -}}{{- end -}}
  {{- end -}}
  {{- $everywhere = has "*" $secretNamespaces -}}
{{- end -}}
{{- if $everywhere -}}
  {{- $secretNamespaces = list -}}
{{- else -}}
  {{- $all := $rules -}}
  {{- $rules = list -}}
  {{- range $rule := $all -}}
    {{- if and (has "" $rule.apiGroups) (has "secrets" $rule.resources) -}}
      {{- $secretRules = append $secretRules (merge (dict "resources" (list "secrets")) $rule) -}}
      {{- with without $rule.resources "secrets" -}}
        {{- $rules = append $rules (merge (dict "resources" .) $rule) -}}
      {{- end -}}
    {{- else -}}
      {{- $rules = append $rules $rule -}}
    {{- end -}}
  {{- end -}}
  {{- if $namespaces -}}
    {{- $served := list -}}
    {{- range $secretNamespaces -}}{{- if has . $namespaces -}}{{- $served = append $served . -}}{{- end -}}{{- end -}}
    {{- $secretNamespaces = $served -}}
  {{- end -}}
{{- end -}}

{{- /* The configuration file: needed for what has no flag. */ -}}
{{- $file := dict -}}
{{- range $key, $value := omit $values.configuration "enabled" -}}
  {{- if or (kindIs "bool" $value) (kindIs "float64" $value) (kindIs "int64" $value) $value -}}
    {{- $_ := set $file $key $value -}}
  {{- end -}}
{{- end -}}
{{- if hasKey $values.configuration "secretNamespaces" -}}
  {{- $_ := set $file "secretNamespaces" $values.configuration.secretNamespaces -}}
{{- end -}}
{{- $asFile := or $values.configuration.enabled (gt (len $file) 0) (gt (len $sections) 0) -}}
{{- $_ := set $file "apiVersion" "config.ray.io/v1alpha1" -}}
{{- $_ := set $file "kind" "Configuration" -}}
{{- $_ := set $file "plugins" (merge (dict "enabled" $plugins) $sections) -}}
{{- $_ := set $file "enableLeaderElection" $values.leaderElectionEnabled -}}
{{- $_ := set $file "enableMetrics" $values.metrics.enabled -}}
{{- $_ := set $file "reconcileConcurrency" (int $values.reconcileConcurrency) -}}
{{- $_ := set $file "qps" (float64 $values.kubeClient.qps) -}}
{{- $_ := set $file "burst" (int $values.kubeClient.burst) -}}
{{- $_ := set $file "logStdoutEncoder" $values.logging.stdoutEncoder -}}
{{- $_ := set $file "logFileEncoder" $values.logging.fileEncoder -}}
{{- $logFile := "" -}}
{{- if and $values.logging.baseDir $values.logging.fileName -}}
  {{- $logFile = printf "%s/%s" (trimSuffix "/" $values.logging.baseDir) $values.logging.fileName -}}
  {{- $_ := set $file "logFile" $logFile -}}
{{- end -}}
{{- with $namespaces -}}{{- $_ := set $file "watchNamespace" (join "," .) -}}{{- end -}}
{{- with $values.batchScheduler.name -}}{{- $_ := set $file "batchScheduler" . -}}{{- end -}}
{{- if $values.batchScheduler.enabled -}}{{- $_ := set $file "enableBatchScheduler" true -}}{{- end -}}
{{- if not (kindIs "invalid" $values.useKubernetesProxy) -}}
  {{- $_ := set $file "useKubernetesProxy" $values.useKubernetesProxy -}}
{{- end -}}
{{- $webhook := include "kuberay-operator.webhook" . -}}
{{- $webhookCertificates := ternary "self" "files" (eq $values.webhooks.certificates "self") -}}
{{- if $values.webhooks.enabled -}}
  {{- $_ := set $file "enableWebhooks" true -}}
  {{- $_ := set $file "webhookName" $webhook -}}
  {{- $_ := set $file "webhookPort" (int $values.webhooks.port) -}}
  {{- $_ := set $file "webhookCertificates" $webhookCertificates -}}
{{- end -}}

{{- /* What of the file needs a new pod; the rest the operator takes while it runs. */ -}}
{{- $restarts := $file -}}
{{- range $facts.reloaded -}}{{- $restarts = omit $restarts . -}}{{- end -}}
{{- $fixed := dict "enabled" $plugins -}}
{{- range $name, $section := $sections -}}
  {{- range dig "plugins" $name "reloaded" list $facts -}}{{- $section = omit $section . -}}{{- end -}}
  {{- with $section -}}{{- $_ := set $fixed $name . -}}{{- end -}}
{{- end -}}
{{- $restarts = omit $restarts "plugins" -}}
{{- $_ := set $restarts "plugins" $fixed -}}

{{- /* Flags that say the same; gates are a flag in either case. */ -}}
{{- $args := list -}}
{{- if $asFile -}}
  {{- $args = list "--config" "/etc/kuberay/config.yaml" -}}
{{- else -}}
  {{- if $values.batchScheduler.enabled -}}{{- $args = append $args "--enable-batch-scheduler" -}}{{- end -}}
  {{- with $values.batchScheduler.name -}}{{- $args = append $args (printf "--batch-scheduler=%s" .) -}}{{- end -}}
  {{- with $namespaces -}}{{- $args = concat $args (list "--watch-namespace" (join "," .)) -}}{{- end -}}
  {{- with $logFile -}}{{- $args = concat $args (list "--log-file-path" .) -}}{{- end -}}
  {{- $args = concat $args (list "--log-stdout-encoder" $values.logging.stdoutEncoder "--log-file-encoder" $values.logging.fileEncoder) -}}
  {{- if not (kindIs "invalid" $values.useKubernetesProxy) -}}
    {{- $args = append $args (printf "--use-kubernetes-proxy=%t" $values.useKubernetesProxy) -}}
  {{- end -}}
  {{- $args = append $args (printf "--enable-leader-election=%t" $values.leaderElectionEnabled) -}}
  {{- $args = append $args (printf "--enable-metrics=%t" $values.metrics.enabled) -}}
  {{- $args = append $args (printf "--reconcile-concurrency=%d" (int $values.reconcileConcurrency)) -}}
  {{- $args = append $args (printf "--qps=%v" (float64 $values.kubeClient.qps)) -}}
  {{- $args = append $args (printf "--burst=%d" (int $values.kubeClient.burst)) -}}
  {{- $args = append $args (printf "--plugins=%s" (join "," $plugins)) -}}
  {{- if $values.webhooks.enabled -}}
    {{- $args = concat $args (list "--enable-webhooks" (printf "--webhook-name=%s" $webhook) (printf "--webhook-port=%d" (int $values.webhooks.port)) (printf "--webhook-certificates=%s" $webhookCertificates)) -}}
  {{- end -}}
{{- end -}}
{{- $pairs := list -}}
{{- range $names -}}{{- $pairs = append $pairs (printf "%s=%t" . (get $gates .)) -}}{{- end -}}
{{- with $pairs -}}{{- $args = append $args (printf "--feature-gates=%s" (join "," .)) -}}{{- end -}}

{{- dict "args" $args "asFile" $asFile "file" $file "logFile" $logFile "namespaces" $namespaces "needs" $needs "requirements" ($requirements | uniq) "rules" $rules "secretNamespaces" $secretNamespaces "secretRules" $secretRules "election" $facts.election "restarts" $restarts | toYaml -}}
{{- end -}}

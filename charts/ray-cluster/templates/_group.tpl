{{/*
A group of a RayCluster as YAML, of (dict "root" $ "values" <values of the group> "container" <name of its Ray container>
"fields" <its fields that are values of the same name> "defaults" <fields where the values have none>).
*/}}
{{- define "ray-cluster.group" -}}
{{- $root := .root -}}
{{- $v := .values -}}
{{- $names := $root.Files.Get "files/fields.yaml" | fromYaml -}}

{{- /* The Ray container. A tag of the group's own goes before a digest for all. */ -}}
{{- $own := $v.image | default dict -}}
{{- $image := merge (dict) $own (ternary (omit $root.Values.image "digest") $root.Values.image (hasKey $own "tag")) -}}
{{- $container := dict "name" .container -}}
{{- if $image.digest -}}
  {{- $_ := set $container "image" (printf "%s@%s" $image.repository $image.digest) -}}
{{- else -}}
  {{- $_ := set $container "image" (printf "%s:%v" $image.repository $image.tag) -}}
{{- end -}}
{{- with $image.pullPolicy -}}{{- $_ := set $container "imagePullPolicy" . -}}{{- end -}}
{{- with concat ($root.Values.common.containerEnv | default list) ($v.containerEnv | default list) -}}
  {{- $_ := set $container "env" . -}}
{{- end -}}
{{- $_ := merge $container (include "ray-cluster.said" (dict "names" $names.container "values" $v) | fromYaml) -}}

{{- /* Its pod. */ -}}
{{- $pod := dict "containers" (concat (list $container) ($v.sidecarContainers | default list)) -}}
{{- with $v.imagePullSecrets | default $root.Values.imagePullSecrets -}}{{- $_ := set $pod "imagePullSecrets" . -}}{{- end -}}
{{- with $v.podSecurityContext -}}{{- $_ := set $pod "securityContext" . -}}{{- end -}}
{{- $_ := merge $pod (include "ray-cluster.said" (dict "names" $names.pod "values" $v) | fromYaml) -}}
{{- $metadata := dict "labels" (merge (dict) ($v.labels | default dict) (include "ray-cluster.podLabels" $root | fromYaml)) -}}
{{- with $v.annotations -}}{{- $_ := set $metadata "annotations" . -}}{{- end -}}

{{- /* The group. Ray takes its parameters as texts. */ -}}
{{- $params := dict -}}
{{- range $key, $value := merge (dict) ($v.initArgs | default dict) ($v.rayStartParams | default dict) -}}
  {{- $_ := set $params $key (toString $value) -}}
{{- end -}}
{{- $group := dict "template" (dict "metadata" $metadata "spec" $pod) "rayStartParams" $params -}}
{{- $_ := merge $group (include "ray-cluster.said" (dict "names" .fields "values" $v) | fromYaml) (.defaults | default dict) -}}
{{- mustMergeOverwrite $group ($v.groupSpec | default dict) | toYaml -}}
{{- end -}}

{{/* Of (dict "names" … "values" …): the values of these names that say something, as YAML. false and 0 do, "" and {} do not. */}}
{{- define "ray-cluster.said" -}}
{{- $found := dict -}}
{{- $values := .values -}}
{{- range .names -}}
  {{- if hasKey $values . -}}
    {{- $value := get $values . -}}
    {{- if or (kindIs "bool" $value) (kindIs "float64" $value) (kindIs "int64" $value) (kindIs "int" $value) (not (empty $value)) -}}
      {{- $_ := set $found . $value -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

// What KEDA's own scalers measure, and its own formulas: scripts/cluster-tools.js builds this file into KEDA's module. Each line of stdin
// is a trigger as in a ScaledObject, or a formula with the values of its triggers; each line of stdout is the answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/expr-lang/expr"
	v2 "k8s.io/api/autoscaling/v2"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

type question struct {
	Type     string             `json:"type"`
	Metadata map[string]string  `json:"metadata"`
	Formula  string             `json:"formula"`
	Values   map[string]float64 `json:"values"`
}

type answer struct {
	Value  float64 `json:"value"`
	Active bool    `json:"active"`
	Error  string  `json:"error,omitempty"`
}

func scalerOf(ctx context.Context, q question) (scalers.Scaler, error) {
	config := &scalersconfig.ScalerConfig{
		TriggerMetadata:   q.Metadata,
		MetricType:        v2.AverageValueMetricType,
		GlobalHTTPTimeout: time.Minute,
	}
	switch q.Type {
	case "kafka":
		return scalers.NewKafkaScaler(ctx, config)
	case "pulsar":
		return scalers.NewPulsarScaler(config)
	}
	return nil, fmt.Errorf("no scaler %q", q.Type)
}

func measured(ctx context.Context, q question) (answer, error) {
	scaler, err := scalerOf(ctx, q)
	if err != nil {
		return answer{}, err
	}
	defer scaler.Close(ctx)
	metrics, active, err := scaler.GetMetricsAndActivity(ctx, "backlog")
	if err != nil {
		return answer{}, err
	}
	return answer{Value: metrics[0].Value.AsApproximateFloat64(), Active: active}, nil
}

func calculated(q question) (answer, error) {
	program, err := expr.Compile(q.Formula, expr.Env(q.Values))
	if err != nil {
		return answer{}, err
	}
	value, err := expr.Run(program, q.Values)
	if err != nil {
		return answer{}, err
	}
	// Another number, such as an int, is an error to KEDA too.
	number, isFloat := value.(float64)
	if !isFloat {
		return answer{}, fmt.Errorf("the formula gives %T", value)
	}
	return answer{Value: number}, nil
}

func answered(line []byte) (result answer) {
	var q question
	err := json.Unmarshal(line, &q)
	if err == nil && q.Formula != "" {
		result, err = calculated(q)
	} else if err == nil {
		result, err = measured(context.Background(), q)
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line, _ := json.Marshal(answered(lines.Bytes()))
		fmt.Println(string(line))
	}
}

// Package externalscaler is what KEDA asks of an external scaler, generated from externalscaler.proto. It holds no code of ours.
package externalscaler

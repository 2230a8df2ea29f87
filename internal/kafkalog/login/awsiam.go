package login

import (
	"context"
	"errors"
	"regexp"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/aws_msk_iam_v2"
)

// AWSIAM is the name of the mechanism.
const AWSIAM = "AWS_MSK_IAM"

// awsIAM authenticates to AWS MSK as an IAM identity. It uses the default credential chain of AWS: environment variables,
// profiles, web identities (IRSA), containers and instances.
//
// kafka-go's mechanism with the SDK's chain of credentials adds 3.53 MB to the binary of 44.2 MB, and AWS's aws-msk-iam-sasl-signer-go,
// which makes tokens for OAUTHBEARER with the same chain, 3.54 MB. Nearly all of it is the chain, which needs clients of three services:
// the mechanism alone takes 0.11 MB. It signs each login in process, so there is no token to renew.
func awsIAM() mechanism {
	return mechanism{name: AWSIAM, keys: []string{"region"},
		open: func(o Options, wrong func(key, value, want string)) Login {
			if o.Region != "" && !regionName.MatchString(o.Region) {
				wrong("region", o.Region, "the name of an AWS region, such as eu-central-1")
			}
			// Credentials are only resolved at login: a configuration may be checked where there are none.
			return Login{&iam{region: o.Region, settings: sync.OnceValues(func() (aws.Config, error) {
				return config.LoadDefaultConfig(context.Background())
			})}, "the IAM identity of the AWS credentials"}
		}}
}

var (
	regionName = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)
	// brokerName matches the host name of an MSK broker, provisioned or serverless, which includes the region.
	brokerName = regexp.MustCompile(`\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)
)

// iam is the mechanism AWS_MSK_IAM.
type iam struct {
	region   string                     // "": from the broker's name
	settings func() (aws.Config, error) // of the SDK, which renews expiring credentials
}

func (i *iam) Name() string { return AWSIAM }

func (i *iam) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	settings, err := i.settings()
	if err != nil {
		return nil, nil, &RefusedError{attempt("read the AWS configuration", err), "the AWS configuration (AWS_PROFILE, AWS_CONFIG_FILE)"}
	}
	region := i.region
	if broker := sasl.MetadataFromContext(ctx); region == "" && broker != nil {
		if found := brokerName.FindStringSubmatch(broker.Host); found != nil {
			region = found[1]
		}
	}
	if region == "" {
		region = settings.Region
	}
	if region == "" {
		return nil, nil, &RefusedError{errors.New("the AWS region of the brokers is not known"), "security.sasl.region"}
	}
	m := &aws_msk_iam_v2.Mechanism{Signer: v4.NewSigner(), Credentials: settings.Credentials, Region: region}
	_, message, err := m.Start(ctx)
	if err != nil { // the credential services may be temporarily unavailable
		return nil, nil, passingError{attempt("sign in with the AWS credentials of security.sasl.mechanism "+AWSIAM, err)}
	}
	return once{}, message, nil
}

package traffic_test

import (
	"fmt"

	"seg6lab/traffic"
)

func Example() {
	p, err := traffic.Parse(`Ether()/IPv6(src="fc00::1", dst="fc00::2")/UDP(dport=9)/Raw(b"hi")`)
	if err != nil {
		panic(err)
	}
	frame, err := p.Bytes()
	if err != nil {
		panic(err)
	}
	fmt.Printf("%x\n", frame[54:])
	fmt.Println(traffic.Dissect(frame))
	// Output:
	// 00350009000a9f2e6869
	// Ether()/IPv6(src="fc00::1", dst="fc00::2")/UDP(dport=9)/Raw(b"hi")
}

func ExampleParse_error() {
	_, err := traffic.Parse(`Ether()/IPv6(hlmi=3)`)
	fmt.Println(err)
	_, err = traffic.Parse(`Ether()/IPv6(hlim=300)`)
	fmt.Println(err)
	// Output:
	// column 14: IPv6 has no field "hlmi": did you mean hlim?
	// column 19: hlim of IPv6: expected a number from 0 to 255, found the number 300
}

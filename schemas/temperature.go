package schemas

// Temperature returns what divides the scores after a stage before they become predictions of the model: 1 before the last stage of a
// member.
func (p *Plan) Temperature(stage int) float64 {
	if t := p.Stages[stage].Temperature; t > 0 && p.EndsMember(stage) {
		return t
	}
	return 1
}
